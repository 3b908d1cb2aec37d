"""The controller dies of SIGKILL: its servers are found again, its lease is free, its edits are taken back."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowngood.errors import Busy, HostError, Quarantined, RevertFailed
from knowngood.hosts.agent import lease, proc
from knowngood.hosts.agent.family import Family
from knowngood.hosts.agent.runs import Launch, Runs
from knowngood.hosts.agent.watch import Lease
from knowngood.hosts.local import LocalHost
from knowngood.model.files import FileEdit
from knowngood.model.launch import LaunchSpec

CONTROLLER = """
import sys, time
from pathlib import Path
from knowngood.hosts.agent.watch import Lease
from knowngood.hosts.local import LocalHost
from knowngood.model.files import FileEdit
from knowngood.model.launch import LaunchSpec

state = Path(sys.argv[1])
host = LocalHost(state)
with host.lease(purpose="a trial"):
    host.journal.apply("t", [FileEdit(path=str(state.parent / "made"), before=None, after=b"trial")])
    host.spawn(LaunchSpec(argv=("sh", "-c", "setsid sleep 300 & exec sleep 300")), run="r", log=state.parent / "log")
    print("up", flush=True)
    time.sleep(300)
"""


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", CONTROLLER, str(tmp_path / "state")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout
        assert child.stdout.readline() == "up\n"
        yield child
        child.kill()
    for stray in LocalHost(tmp_path / "state").strays():
        stray.stop(grace_s=0.0)


def test_while_it_lives_it_is_left_alone(tmp_path: Path, controller: "subprocess.Popen[str]") -> None:
    host = LocalHost(tmp_path / "state")
    assert list(host.strays()) == []
    with pytest.raises(Busy, match=f"process {controller.pid}"), host.lease(purpose="another"):
        pass


def servers(state: Path) -> list[int]:
    """Live processes that were launched from a state directory."""
    return [
        one.pid for launch in Runs(str(state / "runs")).all() for one in Family(launch.token, launch.leader).living()
    ]


def watcher_of(state: Path) -> int:
    return int(json.loads((state / "lease.json").read_bytes())["watcher"][0])


def end_watcher(state: Path) -> None:
    os.kill(watcher_of(state), signal.SIGKILL)


def test_after_its_death_the_machine_goes_back_by_itself(tmp_path: Path, controller: "subprocess.Popen[str]") -> None:
    wait_until(lambda: len(servers(tmp_path / "state")) == 2)
    pids = servers(tmp_path / "state")
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    wait_until(lambda: json.loads((tmp_path / "state/lease.json").read_bytes())["state"] == "lapsed")
    assert not (tmp_path / "made").exists()
    assert [pid for pid in pids if (found := proc.process_stat(pid)) and found.lives] == []
    assert list(Runs(str(tmp_path / "state/runs")).all()) == []


def test_whoever_comes_next_waits_until_it_is_back(tmp_path: Path, controller: "subprocess.Popen[str]") -> None:
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    host = LocalHost(tmp_path / "state")
    with host.lease(purpose="the next trial"):
        assert not (tmp_path / "made").exists()
        assert list(host.strays()) == []
        assert list(host.journal.transactions()) == []


def test_without_a_watcher_the_next_contact_brings_it_back(tmp_path: Path, controller: "subprocess.Popen[str]") -> None:
    wait_until(lambda: len(servers(tmp_path / "state")) == 2)
    end_watcher(tmp_path / "state")
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    host = LocalHost(tmp_path / "state")
    assert (tmp_path / "made").exists()
    (stray,) = host.strays()
    assert len(stray.inspect().pids) == 2
    with host.lease(purpose="the next trial"):
        assert not (tmp_path / "made").exists()
        assert stray.inspect().pids == ()
        assert list(host.strays()) == []


def test_a_silent_holder_loses_the_machine_and_its_token_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fall_silent(lease: Lease, token: int) -> None: ...

    monkeypatch.setattr(Lease, "renew", fall_silent)
    host = LocalHost(tmp_path / "state", ttl_s=0.4)
    with pytest.raises(HostError, match="nothing was heard"), host.lease(purpose="a trial"):
        outlast(host, tmp_path)
    assert not (tmp_path / "made").exists()


def outlast(host: LocalHost, room: Path) -> None:
    """Work on beyond the end of a lease."""
    edit = FileEdit(path=str(room / "made"), before=None, after=b"trial")
    host.journal.apply("t", [edit])
    process = host.spawn(LaunchSpec(argv=("sleep", "300")), run="r", log=room / "log")
    wait_until(lambda: not (room / "made").exists())
    wait_until(lambda: process.poll() is not None)
    assert host.journal.revert("t").state == "reverted"
    host.journal.apply("u", [edit])


def test_a_watcher_that_is_killed_is_replaced(tmp_path: Path) -> None:
    host = LocalHost(tmp_path / "state", ttl_s=1.0)
    with host.lease(purpose="a trial"):
        first = watcher_of(tmp_path / "state")
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: watcher_of(tmp_path / "state") != first)
        assert "a trial" in LocalHost(tmp_path / "state").holder()
    assert host.holder() == ""


def test_users_with_states_of_their_own_share_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = tmp_path / "lock"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(lease, "SHARED", (str(shared),))
    monkeypatch.delenv("KNOWNGOOD_STATE", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    hosts: list[LocalHost] = []
    for user in ("ada", "bob"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / user))
        hosts.append(LocalHost())
    with hosts[0].lease(purpose="a trial"):
        assert "a trial since" in hosts[1].holder()
        with pytest.raises(Busy, match="a trial since"), hosts[1].lease(purpose="another"):
            pass
    with hosts[1].lease(purpose="another"):
        assert (tmp_path / "bob/knowngood/lease.json").exists()


def test_no_server_starts_while_a_transaction_is_unfinished(tmp_path: Path) -> None:
    host = LocalHost(tmp_path / "state")
    host.journal.apply("t", [FileEdit(path=str(tmp_path / "made"), before=None, after=b"trial")])
    (tmp_path / "made").write_text("mine")
    with pytest.raises(RevertFailed):
        host.journal.revert("t")
    with pytest.raises(Quarantined, match="unfinished"):
        host.spawn(LaunchSpec(argv=("sleep", "300")), run="r", log=tmp_path / "log")
    (tmp_path / "made").write_text("trial")
    host.journal.recover()
    host.spawn(LaunchSpec(argv=("sleep", "300")), run="r", log=tmp_path / "log").stop(grace_s=5.0)


def test_killed_between_start_and_record_the_marker_tells(tmp_path: Path, controller: "subprocess.Popen[str]") -> None:
    end_watcher(tmp_path / "state")
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    runs = Runs(str(tmp_path / "state" / "runs"))
    (launch,) = runs.all()
    runs.write(launch._replace(leader=None))
    (stray,) = LocalHost(tmp_path / "state").strays()
    assert stray.poll() is None
    stray.stop(grace_s=5.0)
    assert stray.poll() is not None


@pytest.mark.parametrize("boot", ["this boot", "another boot"])
def test_a_process_id_given_to_a_stranger_is_never_touched(tmp_path: Path, boot: str) -> None:
    with subprocess.Popen(["sleep", "300"]) as stranger:
        found = proc.process_stat(stranger.pid)
        assert found
        start = found.start if boot == "another boot" else found.start - 1
        runs = Runs(str(tmp_path / "runs"))
        runs.write(
            Launch(
                run="r",
                token="0" * 32,
                argv=["sleep", "300"],
                boot=proc.boot_id() if boot == "this boot" else "another",
                controller=(stranger.pid, 0),
                leader=(stranger.pid, start),
            )
        )
        assert list(LocalHost(tmp_path).strays()) == []
        assert list(runs.all()) == []
        assert stranger.poll() is None
        stranger.kill()


def test_a_launch_leaves_no_record_when_it_is_over(tmp_path: Path) -> None:
    host = LocalHost(tmp_path)
    process = host.spawn(LaunchSpec(argv=("sleep", "300")), run="r", log=tmp_path / "log")
    assert len(list(Runs(str(tmp_path / "runs")).all())) == 1
    process.stop(grace_s=5.0)
    assert list(Runs(str(tmp_path / "runs")).all()) == []


def test_the_edit_of_a_dead_controller_stands_until_recovery(tmp_path: Path) -> None:
    host = LocalHost(tmp_path / "state")
    child = os.fork()
    if child == 0:
        try:
            host.journal.apply("t", [FileEdit(path=str(tmp_path / "made"), before=None, after=b"trial")])
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    os.waitpid(child, 0)
    assert [t.state for t in host.journal.transactions()] == ["applied"]
    assert (tmp_path / "made").read_bytes() == b"trial"
    host.journal.recover()
    assert not (tmp_path / "made").exists()
