"""What every host and its journal must do: one suite for the built-in ones and for those of plug-in authors.

Inherit from the two suites and say how to get a host::

    class TestMyHost(HostSuite):
        @pytest.fixture
        def make_host(self, tmp_path):
            return lambda: MyHost(state=tmp_path)
"""

import hashlib
import http.client
import shlex
import signal
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowngood.errors import Busy, Died, Drift, HostError, Refused, RevertFailed, Unreachable
from knowngood.model.change import Setting
from knowngood.model.files import FileEdit
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Host, Process

MakeHost = Callable[[], Host]
PATIENCE_S = 20.0
UNKNOWN_STATUS = 255
SLEEPER = "exec sleep 300"
FREE_PORT = "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); print(s.getsockname()[1])"
STUBBORN = "trap '' TERM; echo up; while :; do sleep 1; done"


class Files:
    """A directory on a host, written and read through the host's own verbs.

    Args:
        host: The host.
        root: The directory.
    """

    def __init__(self, host: Host, root: str) -> None:
        self.host = host
        self.root = root

    def path(self, name: str) -> str:
        """Absolute path of a name in the directory."""
        return f"{self.root}/{name}"

    def write(self, name: str, text: str) -> None:
        """Write a file as somebody else would."""
        shell(self.host, 'printf %s "$2" > "$1"', self.path(name), text)

    def read(self, name: str) -> str | None:
        """Text of a file, or None."""
        found = self.host.look(self.path(name))
        return None if found is None else found.decode()

    def edit(self, name: str, before: str | None, after: str | None) -> FileEdit:
        """A planned edit."""
        return FileEdit(path=self.path(name), before=sha256(before), after=None if after is None else after.encode())

    def listing(self) -> str:
        """Everything in the directory: names, modes, owners, times of files, link counts."""
        script = 'cd "$1" && find . ! -type d -exec stat -c "%n %f %u %g %Y %h" {} + | sort; find . -type d | sort'
        return shell(self.host, script, self.root)


def fetch(url: str) -> bytes:
    """Body of a page."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()


def sha256(text: str | None) -> str | None:
    """Digest of a text's bytes, or None."""
    return None if text is None else hashlib.sha256(text.encode()).hexdigest()


def shell(host: Host, script: str, *arguments: str) -> str:
    """Run a shell script on a host and return what it prints."""
    done = host.run(["sh", "-c", script, "sh", *arguments], timeout_s=PATIENCE_S)
    assert done.status == 0, done.err
    return done.out.decode()


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds; fail if it never does."""
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


class Fixtures:
    """What both suites stand on."""

    @pytest.fixture
    def make_host(self) -> MakeHost:
        """How to get a host; called twice it gives two objects for the same machine and the same state."""
        raise NotImplementedError

    @pytest.fixture
    def lose(self) -> Callable[[Host], None]:
        """How a host loses its controller, as if that had died; the object may be used again afterwards."""
        return lambda _: None

    @pytest.fixture
    def host(self, make_host: MakeHost) -> Host:
        """A host."""
        return make_host()

    @pytest.fixture
    def files(self, host: Host) -> Iterator[Files]:
        """An empty directory on the host."""
        root = shell(host, "mktemp -d").strip()
        yield Files(host, shell(host, 'cd "$1" && pwd -P', root).strip())
        shell(host, 'rm -rf "$1"', root)


class JournalSuite(Fixtures):
    """A journal puts sets of edits on the host and takes them back exactly."""

    def test_apply_and_revert(self, host: Host, files: Files) -> None:
        files.write("a", "old a")
        files.write("gone", "old gone")
        before = files.listing()
        edits = [
            files.edit("a", "old a", "new a"),
            files.edit("gone", "old gone", None),
            files.edit("made/in/here", None, "new"),
        ]
        applied = host.journal.apply("t", edits)
        assert (applied.id, applied.state) == ("t", "applied")
        assert applied.files == {
            files.path("a"): sha256("new a"),
            files.path("gone"): None,
            files.path("made/in/here"): sha256("new"),
        }
        assert [files.read(name) for name in ("a", "gone", "made/in/here")] == ["new a", None, "new"]
        assert host.journal.revert("t").state == "reverted"
        assert files.listing() == before
        assert files.read("a") == "old a"

    def test_metadata_and_links_come_back(self, host: Host, files: Files) -> None:
        files.write("a", "old")
        shell(
            host, 'cd "$1" && chmod 640 a && touch -d "2001-02-03 04:05:06" a && ln a twin && ln -s a link', files.root
        )
        before = files.listing()
        host.journal.apply("t", [FileEdit(path=files.path("link"), before=sha256("old"), after=b"new")])
        assert (files.read("a"), files.read("twin"), files.read("link")) == ("new", "old", "new")
        assert shell(host, 'stat -c %a "$1"', files.path("a")) == "640\n"
        host.journal.revert("t")
        assert files.listing() == before
        assert files.read("a") == "old"

    def test_drift_refuses_the_whole_set(self, host: Host, files: Files) -> None:
        files.write("a", "old")
        files.write("b", "edited by somebody")
        before = files.listing()
        with pytest.raises(Drift):
            host.journal.apply("t", [files.edit("a", "old", "new"), files.edit("b", "old", "new")])
        with pytest.raises(Drift):
            host.journal.apply("u", [files.edit("a", None, "new")])
        with pytest.raises(Drift):
            host.journal.apply("v", [files.edit("missing", "old", "new")])
        assert files.listing() == before
        assert files.read("a") == "old"
        assert list(host.journal.transactions()) == []

    def test_what_is_no_file_is_refused(self, host: Host, files: Files) -> None:
        shell(host, 'mkdir "$1/folder"', files.root)
        with pytest.raises(Refused):
            host.journal.apply("t", [files.edit("folder", None, "new")])
        with pytest.raises(Refused):
            host.journal.apply("t", [FileEdit(path="relative", before=None, after=b"new")])

    def test_the_same_id_again_is_answered(self, host: Host, files: Files) -> None:
        edits = [files.edit("a", None, "new")]
        assert host.journal.apply("t", edits) == host.journal.apply("t", edits)
        host.journal.revert("t")
        assert host.journal.revert("t").state == "reverted"
        assert host.journal.apply("t", edits).state == "reverted"
        assert files.read("a") is None

    def test_an_unknown_id_is_refused(self, host: Host) -> None:
        with pytest.raises(Refused):
            host.journal.revert("nobody")
        with pytest.raises(Refused):
            host.journal.keep("nobody")

    def test_what_is_kept_and_forgotten_stands_in_nobodys_way(self, host: Host, files: Files) -> None:
        files.write("a", "0")
        host.journal.apply("one", [files.edit("a", "0", "1")])
        host.journal.keep("one")
        with pytest.raises(Refused):
            host.journal.forget("nobody")
        host.journal.apply("two", [files.edit("a", "1", "2"), files.edit("b", None, "new")])
        with pytest.raises(Refused):
            host.journal.forget("two")
        host.journal.keep("two")
        host.journal.forget("two")
        assert (files.read("a"), files.read("b")) == ("2", "new")
        assert [t.id for t in host.journal.transactions()] == ["one"]
        files.write("a", "1")
        assert host.journal.revert("one").state == "reverted"
        assert files.read("a") == "0"

    def test_a_setting_is_set_read_and_put_back(self, host: Host, files: Files) -> None:
        files.write("value", "1")
        path = str(files.path("value"))
        write = ("sh", "-c", 'printf %s "$1" > "$2"', "sh", "{value}", path)
        setting = Setting(name="value", value="2", read=("cat", path), write=write)
        assert host.settings.read([setting]) == {"value": "1"}
        assert host.settings.apply("t", [setting]).values == {"value": "2"}
        assert [(t.id, t.state) for t in host.settings.transactions()] == [("t", "applied")]
        assert host.settings.keep("t").state == "kept"
        assert host.settings.recover() == []
        assert host.settings.revert("t").state == "reverted"
        assert files.read("value") == "1"
        with pytest.raises(Refused):
            host.settings.read([Setting(name="vm.no_such_thing", value="1")])

    def test_recovery_takes_back_what_was_not_kept(self, host: Host, make_host: MakeHost, files: Files) -> None:
        files.write("a", "0")
        host.journal.apply("one", [files.edit("a", "0", "1")])
        assert host.journal.keep("one").state == "kept"
        host.journal.apply("two", [files.edit("a", "1", "2")])
        host.journal.apply("three", [files.edit("a", "2", "3")])
        assert [t.id for t in host.journal.transactions()] == ["one", "two", "three"]
        recovered = make_host().journal.recover()
        assert [(t.id, t.state) for t in recovered] == [("three", "reverted"), ("two", "reverted")]
        assert files.read("a") == "1"
        assert [(t.id, t.state) for t in host.journal.transactions()] == [("one", "kept")]

    def test_recovery_keeps_what_it_is_told_to(self, host: Host, files: Files) -> None:
        host.journal.apply("one", [files.edit("a", None, "1")])
        host.journal.apply("two", [files.edit("b", None, "1")])
        recovered = host.journal.recover(keep=["one"])
        assert {t.id: t.state for t in recovered} == {"one": "kept", "two": "reverted"}
        assert (files.read("a"), files.read("b")) == ("1", None)
        assert list(host.journal.recover()) == []

    def test_what_was_kept_can_be_taken_back(self, host: Host, files: Files) -> None:
        files.write("a", "old")
        before = files.listing()
        host.journal.apply("t", [files.edit("a", "old", "new")])
        host.journal.keep("t")
        host.journal.keep("t")
        host.journal.revert("t")
        assert files.listing() == before

    def test_a_later_transaction_goes_first(self, host: Host, files: Files) -> None:
        host.journal.apply("one", [files.edit("a", None, "1")])
        host.journal.keep("one")
        host.journal.apply("two", [files.edit("a", "1", "2")])
        with pytest.raises(Refused):
            host.journal.revert("one")
        assert files.read("a") == "2"

    def test_somebody_elses_edit_is_left_alone(self, host: Host, files: Files) -> None:
        files.write("a", "old")
        files.write("b", "old")
        host.journal.apply("t", [files.edit("a", "old", "new"), files.edit("b", "old", "new")])
        files.write("a", "mine")
        with pytest.raises(RevertFailed):
            host.journal.revert("t")
        assert (files.read("a"), files.read("b")) == ("mine", "old")
        found = host.journal.transactions()[0]
        assert found.state == "unfinished"
        with pytest.raises(Refused):
            host.journal.apply("u", [files.edit("b", "old", "new")])
        files.write("a", "new")
        assert [t.state for t in host.journal.recover()] == ["reverted"]
        assert files.read("a") == "old"


class HostSuite(JournalSuite):
    """A host runs programs, starts servers, ends all that descends from them, and is held by one at a time."""

    @pytest.fixture
    def start(self, host: Host, tmp_path: Path) -> Iterator[Callable[..., Process]]:
        """Start a shell script as a server; it is ended after the test."""
        started: list[Process] = []

        def launch(script: str, *, run: str = "run", **fields: object) -> Process:
            spec = LaunchSpec(argv=("sh", "-c", script), **fields)  # type: ignore[arg-type]
            started.append(host.spawn(spec, run=run, log=tmp_path / "server.log"))
            return started[-1]

        yield launch
        for process in started:
            process.stop(grace_s=0.0)

    def test_run(self, host: Host) -> None:
        done = host.run(["sh", "-c", "echo $X; echo no >&2; cat; exit 3"], timeout_s=PATIENCE_S, env={"X": "yes"})
        assert (done.status, done.out, done.err) == (3, b"yes\n", b"no\n")

    def test_run_what_is_not_there(self, host: Host) -> None:
        with pytest.raises(Unreachable):
            host.run(["knowngood-no-such-program"], timeout_s=PATIENCE_S)

    def test_run_what_does_not_end(self, host: Host) -> None:
        with pytest.raises(Unreachable):
            host.run(["sh", "-c", "sleep 300 & sleep 300"], timeout_s=0.2)

    def test_look(self, host: Host, files: Files) -> None:
        files.write("a", "text")
        assert host.look(files.path("a")) == b"text"
        assert host.look(files.path("b")) is None
        assert host.look(files.path("a/b")) is None
        with pytest.raises(HostError):
            host.look(files.root)

    def test_a_server_writes_to_its_log(self, start: Callable[..., Process], tmp_path: Path) -> None:
        log = tmp_path / "server.log"
        log.write_text("before\n")
        process = start("echo out; echo err >&2; exit 7")
        wait_until(lambda: process.poll() is not None)
        assert process.poll() == 7
        wait_until(lambda: log.read_text() == "before\nout\nerr\n")

    def test_a_server_has_its_environment(self, host: Host, start: Callable[..., Process], tmp_path: Path) -> None:
        path = shell(host, "printf %s $PATH")
        process = start("echo $PATH,$ADDED,$HOME,$KNOWNGOOD_RUN,$(pwd)", env={"ADDED": "a"}, unset=("HOME",), cwd="/")
        wait_until(lambda: process.poll() is not None)
        wait_until(lambda: (tmp_path / "server.log").read_text() == f"{path},a,,run,/\n")

    @pytest.mark.parametrize(
        "spec",
        [
            LaunchSpec(argv=("knowngood-no-such-program",)),
            LaunchSpec(argv=("/etc/passwd",)),
            LaunchSpec(argv=("sh",), cwd="/no/such/directory"),
        ],
        ids=["missing", "no program", "no directory"],
    )
    def test_what_cannot_be_started_died(self, host: Host, tmp_path: Path, spec: LaunchSpec) -> None:
        with pytest.raises(Died) as caught:
            host.spawn(spec, run="run", log=tmp_path / "log")
        assert caught.value.hint
        assert list(host.strays()) == []

    def test_a_signal_is_a_negative_status(self, start: Callable[..., Process]) -> None:
        process = start("kill -9 $$")
        wait_until(lambda: process.poll() is not None)
        assert process.poll() == -signal.SIGKILL

    def test_stop_asks_first(self, start: Callable[..., Process], tmp_path: Path) -> None:
        log = tmp_path / "server.log"
        process = start("trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done")
        wait_until(lambda: "up" in log.read_text())
        assert process.poll() is None
        process.stop(grace_s=PATIENCE_S)
        assert process.poll() == 0
        assert log.read_text().endswith("bye\n")
        process.stop(grace_s=0.0)

    @pytest.mark.parametrize(
        "script",
        [
            STUBBORN,
            f"(trap '' TERM; {SLEEPER}) & echo up; wait",
            f"setsid sh -c '{SLEEPER}' & echo up; wait",
            f"setsid sh -c '{SLEEPER}' & echo up; exit 0",
            f"({SLEEPER}) & echo up; exit 0",
            "echo up; kill -STOP $$",
        ],
        ids=["ignores", "child ignores", "left session", "left and orphaned", "orphaned", "stopped"],
    )
    def test_stop_ends_all(self, host: Host, start: Callable[..., Process], tmp_path: Path, script: str) -> None:
        process = start(script)
        wait_until(lambda: "up" in (tmp_path / "server.log").read_text())
        pids = process.inspect().pids
        assert pids
        process.stop(grace_s=0.2)
        assert process.inspect().pids == ()
        assert process.poll() is not None
        alive = "for p; do case $(ps -o stat= -p $p) in ''|Z*) ;; *) echo $p;; esac; done"
        assert shell(host, alive, *map(str, pids)) == ""

    def test_a_stray_is_found_and_ended(
        self, host: Host, make_host: MakeHost, lose: Callable[[Host], None], start: Callable[..., Process]
    ) -> None:
        process = start(SLEEPER, run="lost")
        assert list(host.strays()) == []
        lose(host)
        other = make_host()
        wait_until(other.strays)
        (stray,) = other.strays()
        assert stray.pid == process.pid
        assert stray.poll() is None
        assert stray.inspect().environ["KNOWNGOOD_RUN"] == "lost"
        stray.stop(grace_s=PATIENCE_S)
        assert stray.poll() is not None
        # Whoever was away when somebody else ended it need not know how it ended.
        wait_until(lambda: process.poll() in (-signal.SIGTERM, UNKNOWN_STATUS))
        assert list(make_host().strays()) == []

    def test_cpu_counts_children_that_are_gone(self, host: Host, start: Callable[..., Process], tmp_path: Path) -> None:
        burn = "i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done"
        process = start(f"sh -c '{burn}'; echo up; {SLEEPER}")
        first = process.cpu()
        wait_until(lambda: "up" in (tmp_path / "server.log").read_text())
        second = process.cpu()
        assert second.at > first.at
        assert second.server_s > first.server_s
        assert second.busy_s - first.busy_s > 0
        assert second.rss_mb > 0
        # What a machine does not count is left out, the same each time.
        assert second.counts.keys() == first.counts.keys() == host.counts().keys()
        assert all(second.counts[name] >= value for name, value in first.counts.items())

    def test_surroundings(self, host: Host, start: Callable[..., Process]) -> None:
        alone, around = host.surroundings(), start(SLEEPER).surroundings()
        assert around.accelerators == alone.accelerators
        assert around.driver == alone.driver
        assert around.levels.keys() == alone.levels.keys()
        assert around.gpu_mb is None

    def test_inspect(self, host: Host, start: Callable[..., Process], tmp_path: Path) -> None:
        listen = (
            "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"
        )
        process = start(f"tail -f /dev/null | python3 -c {shlex.quote(listen)}", env={"COLOR": "blue"})
        wait_until(lambda: (tmp_path / "server.log").read_text().endswith("\n"))
        inside = process.inspect()
        assert inside.ports == (int((tmp_path / "server.log").read_text()),)
        assert inside.argv[:2] == ("sh", "-c")
        assert inside.environ["COLOR"] == "blue"
        assert process.pid in inside.pids
        assert len(inside.pids) == 3
        assert inside.rss_mb > 1
        assert host.address

    def test_one_holder_at_a_time(self, host: Host, make_host: MakeHost, start: Callable[..., Process]) -> None:
        other = make_host()
        with host.lease(purpose="trial 7"):
            start(SLEEPER)
            with pytest.raises(Busy, match="trial 7") as caught, other.lease(purpose="trial 8"):
                pass
            assert caught.value.facts["purpose"] == "trial 7"
            assert caught.value.facts["since"]
            assert "trial 7" in other.holder()
        # The server that was started meanwhile lives on, and must not hold the machine.
        assert other.holder() == ""
        with other.lease(purpose="trial 8"):
            pass

    def test_a_server_is_reached(self, host: Host, start: Callable[..., Process]) -> None:
        port = int(shell(host, 'python3 -c "$1"', FREE_PORT))
        serve = f"exec python3 -m http.server --bind 127.0.0.1 {port}"
        process = start(serve)
        wait_until(lambda: process.inspect().ports == (port,))
        with host.reach(LaunchSpec(argv=("x",), port=port)) as route:
            assert fetch(route.url)
            assert route.breaks() == 0
