"""A machine reached over a real sshd, and one reached through a command, pass the suite of their port."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from knowngood.errors import HostError, Unreachable
from knowngood.hosts.local import LocalHost
from knowngood.hosts.ssh import SshHost
from knowngood.model.files import FileEdit
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Host
from knowngood.testing.host_suite import HostSuite, fetch, wait_until
from knowngood.testing.loopback import NAME, find_sshd, free_port, loopback


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Directory with an ``ssh`` that knows a private sshd on this machine."""
    if find_sshd() is None:
        pytest.skip("NOT TESTED: there is no sshd on this machine (apt-get install openssh-server)")
    with loopback(tmp_path_factory.mktemp("sshd")) as folder:
        yield folder


@pytest.fixture
def hosts() -> Iterator[list[SshHost]]:
    """Hosts that are let go after the test."""
    made: list[SshHost] = []
    yield made
    for host in made:
        host.close()


def lose_connection(host: Host) -> None:
    assert isinstance(host, SshHost)
    host.close()


class TestOverSsh(HostSuite):
    @pytest.fixture
    def lose(self) -> Callable[[Host], None]:
        return lose_connection

    @pytest.fixture
    def make_host(
        self, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[SshHost]
    ) -> Callable[[], Host]:
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

        def make() -> Host:
            hosts.append(SshHost(NAME, state=str(tmp_path / "state")))
            return hosts[-1]

        return make


class TestThroughACommand(HostSuite):
    """A shell stands in for ``docker exec -i NAME``: it is given a program and its arguments, and runs them."""

    @pytest.fixture
    def lose(self) -> Callable[[Host], None]:
        return lose_connection

    @pytest.fixture
    def make_host(self, tmp_path: Path, hosts: list[SshHost]) -> Callable[[], Host]:
        def make() -> Host:
            prefix = ("sh", "-c", 'echo Welcome; printf noise; "$@"', "elsewhere")
            hosts.append(SshHost(prefix=prefix, state=str(tmp_path / "state")))
            return hosts[-1]

        return make


@pytest.mark.skipif(shutil.which("sudo") is None, reason="NOT TESTED: there is no sudo on this machine")
class TestWithSudo(HostSuite):
    """The agent runs as root, by ``sudo -n``."""

    @pytest.fixture
    def lose(self) -> Callable[[Host], None]:
        return lose_connection

    @pytest.fixture
    def make_host(self, tmp_path: Path, hosts: list[SshHost]) -> Callable[[], Host]:
        if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode:
            pytest.skip("NOT TESTED: sudo wants a password")

        def make() -> Host:
            hosts.append(SshHost(prefix=("env", "-u", "PYTHONPATH"), sudo=True, state=str(tmp_path / "state")))
            return hosts[-1]

        return make


@pytest.fixture(scope="module")
def container() -> Iterator[int]:
    """Process id of the first process of a container: its own mounts, processes and host name, as docker makes them."""
    alone = ["unshare", "--mount", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child"]
    script = "hostname inside; echo up; exec sleep infinity"
    with subprocess.Popen([*alone, "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as outer:
        assert outer.stdout
        if outer.stdout.readline() != b"up\n":
            pytest.skip("NOT TESTED: this machine does not let us make namespaces")
        children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
        try:
            yield int(children.read_text().split()[0])
        finally:
            outer.kill()


class TestInAContainer(HostSuite):
    """``nsenter`` leads into a container as ``docker exec -i`` does."""

    @pytest.fixture
    def lose(self) -> Callable[[Host], None]:
        return lose_connection

    @pytest.fixture
    def make_host(self, container: int, tmp_path: Path, hosts: list[SshHost]) -> Callable[[], Host]:
        def make() -> Host:
            prefix = ("nsenter", "--target", str(container), "--mount", "--pid", "--uts")
            hosts.append(SshHost(prefix=prefix, state=str(tmp_path / "state")))
            return hosts[-1]

        return make

    def test_it_is_inside(self, make_host: Callable[[], Host]) -> None:
        assert make_host().run(["hostname"], timeout_s=20).out == b"inside\n"


def cut(host: SshHost) -> None:
    """Kill the ssh client: for the other side the line is dead."""
    process = host.connection.process
    assert process
    process.kill()
    process.wait()


def cut_when(host: SshHost, sign: Path) -> None:
    wait_until(sign.exists)
    cut(host)


class TestLostConnections:
    @pytest.fixture
    def host(self, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hosts: list[SshHost]) -> SshHost:
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        hosts.append(SshHost(NAME, state=str(tmp_path / "state"), ttl_s=30.0))
        return hosts[-1]

    def test_a_lost_connection_is_made_again(self, host: SshHost) -> None:
        assert host.look("/no/such/file") is None
        cut(host)
        assert host.run(["echo", "here"], timeout_s=20).out == b"here\n"
        assert host.connection.lost == 1

    def test_a_request_cut_while_it_runs_is_done_once(self, host: SshHost, tmp_path: Path) -> None:
        count, begun = tmp_path / "count", tmp_path / "begun"
        script = 'echo once >> "$1"; touch "$2"; sleep 1; echo done'
        threading.Thread(target=cut_when, args=(host, begun)).start()
        done = host.run(["sh", "-c", script, "sh", str(count), str(begun)], timeout_s=20)
        assert done.out == b"done\n"
        assert host.connection.lost == 1
        assert count.read_text() == "once\n"

    def test_the_lease_and_the_server_outlive_the_connection(self, host: SshHost, tmp_path: Path) -> None:
        with host.lease(purpose="a trial"):
            host.journal.apply("t", [FileEdit(path=str(tmp_path / "made"), before=None, after=b"trial")])
            spec = LaunchSpec(argv=("sh", "-c", "echo up; while [ ! -e end ]; do sleep 0.1; done; exit 7"))
            spec = msgspec.structs.replace(spec, cwd=str(tmp_path))
            process = host.spawn(spec, run="r", log=tmp_path / "log")
            wait_until(lambda: (tmp_path / "log").read_text() == "up\n")
            cut(host)
            assert process.poll() is None
            assert "a trial" in SshHost(NAME, state=str(tmp_path / "state")).holder()
            assert (tmp_path / "made").exists()
            (tmp_path / "end").touch()
            # The agent that started it, which nobody can reach any more, has written down how it ended.
            wait_until(lambda: process.poll() is not None)
            assert process.poll() == 7
            process.stop(grace_s=0.0)
            assert host.journal.revert("t").state == "reverted"
        assert not (tmp_path / "made").exists()
        with host.lease(purpose="the next"):
            pass

    def test_a_request_longer_than_the_lease_is_no_silence(self, host: SshHost, tmp_path: Path) -> None:
        host.ttl_s = 1.0
        with host.lease(purpose="a trial"):
            host.journal.apply("t", [FileEdit(path=str(tmp_path / "made"), before=None, after=b"trial")])
            host.run(["sleep", "3"], timeout_s=20)
            assert (tmp_path / "made").exists()
            host.journal.revert("t")

    def test_a_controller_that_stays_away_loses_the_host(self, host: SshHost, tmp_path: Path) -> None:
        host.ttl_s = 1.5
        held = host.lease(purpose="a trial")
        held.__enter__()
        host.journal.apply("t", [FileEdit(path=str(tmp_path / "made"), before=None, after=b"trial")])
        process = host.spawn(LaunchSpec(argv=("sleep", "300")), run="r", log=tmp_path / "log")
        away(host)
        wait_until(lambda: not (tmp_path / "made").exists())
        other = LocalHost(tmp_path / "state")
        wait_until(lambda: other.holder() == "")
        wait_until(lambda: not Path(f"/proc/{process.pid}").exists())
        host.connection.command = SshHost(NAME).connection.command
        with pytest.raises(HostError, match="nothing was heard"):
            host.journal.apply("u", [FileEdit(path=str(tmp_path / "made"), before=None, after=b"trial")])

    def test_a_way_to_a_port_comes_back_with_the_connection(self, host: SshHost, tmp_path: Path) -> None:
        port = free_port()
        spec = LaunchSpec(argv=("python3", "-m", "http.server", "--bind", "127.0.0.1", str(port)), port=port)
        process = host.spawn(spec, run="r", log=tmp_path / "log")
        wait_until(lambda: process.inspect().ports == (port,))
        with host.reach(spec) as route:
            assert fetch(route.url)
            cut(host)
            assert process.poll() is None
            assert route.breaks() == 1
            assert fetch(route.url)
        process.stop(grace_s=1.0)
        with pytest.raises(OSError, match="refused"):
            fetch(route.url)


def away(host: SshHost) -> None:
    """Let the controller be gone: its connection is cut, and it makes no other."""
    host.connection.command = nowhere
    cut(host)


def nowhere(words: Sequence[str]) -> Sequence[str]:
    return ["false"]


class TestWhatCannotBeReached:
    def test_a_name_that_is_none(self, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
        with pytest.raises(Unreachable, match=r"ssh://no-such-host\.invalid") as caught:
            SshHost("no-such-host.invalid").look("/etc/passwd")
        assert "ssh" in caught.value.hint

    def test_a_host_without_python(self) -> None:
        with pytest.raises(Unreachable, match=r"no Python 3\.8") as caught:
            SshHost(prefix=("env",), python="/no/such/python").look("/etc/passwd")
        assert "[host] python" in caught.value.hint

    def test_a_command_that_is_none(self) -> None:
        with pytest.raises(Unreachable, match="no-such-command"):
            SshHost(prefix=("no-such-command",)).look("/etc/passwd")

    def test_one_that_talks_without_end(self) -> None:
        with pytest.raises(Unreachable):
            SshHost(prefix=("sh", "-c", "yes")).look("/etc/passwd")
