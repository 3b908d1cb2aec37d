"""Trials on another machine: this one, reached over a real sshd."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from knowngood.testing.loopback import NAME

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

FASTER = '[[change]]\nedit = "{root}/pace.txt"\nfind = "10"\nreplace = "5"\n'


@pytest.fixture
def far(lab: "RealLab", move_away: Callable[..., None]) -> "RealLab":
    """A lab whose host is reached over ssh."""
    move_away(lab)
    done = lab.run("baseline", "--json")
    assert done.status == 0, done
    return lab


def connection_of(controller: int) -> int:
    """Process id of the ssh client that carries a controller's connection."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if parent == controller and b"-T" in words and NAME.encode() in words:
                return int(folder.name)
    raise AssertionError("there is no connection")


def test_a_whole_trial_on_another_machine(far: "RealLab") -> None:
    before = far.pace.read_bytes()
    done = far.run("try", far.experiment("faster", FASTER.format(root=far.root)), "--json")
    assert done.status == 0, done
    trial = done.json["trials"][0]
    assert trial["verdict"]["decision"] == "keep", done
    assert far.pace.read_bytes() == before.replace(b"10", b"5")
    far.assert_known_good()
    assert far.run("undo").status == 0
    assert far.pace.read_bytes() == before
    far.assert_known_good()


def test_a_connection_that_comes_back_within_the_lease_costs_one_run(far: "RealLab") -> None:
    name = far.experiment("faster", FASTER.format(root=far.root))
    with far.start("try", name) as trying:
        # The raw samples are opened when a run begins: from then on there is one to lose.
        runs = far.root / ".knowngood" / "runs"
        until = time.monotonic() + 30
        while not list(runs.glob("*-t0001-00-candidate-*.jsonl.gz")):
            assert time.monotonic() < until, "no run began"
            time.sleep(0.01)
        os.kill(connection_of(trying.pid), signal.SIGKILL)
        done = far.finish(trying)
    assert done.status == 0, done
    assert "the connection was lost while it ran" in done.err + done.out, done
    assert "keep" in done.out, done
    far.assert_known_good()


def test_a_controller_that_never_comes_back_leaves_the_host_to_itself(far: "RealLab") -> None:
    before = far.pace.read_bytes()
    with far.start("try", far.experiment("faster", FASTER.format(root=far.root))) as trying:
        far.wait_for_server()
        # A controller that is killed, not one that ends: nobody says good-bye.
        client = connection_of(trying.pid)
        os.kill(trying.pid, signal.SIGKILL)
        os.kill(client, signal.SIGKILL)
        trying.communicate(timeout=10)
    until = time.monotonic() + 60
    while far.servers() or "held" in (far.state / "lease.json").read_text():
        assert time.monotonic() < until, "nobody brought the host back"
        time.sleep(0.1)
    assert far.pace.read_bytes() == before
    assert far.run("status").status == 3
    assert far.run("recover").status == 0
    far.assert_known_good()


def test_a_load_that_comes_from_the_host_itself(lab: "RealLab", move_away: Callable[..., None]) -> None:
    move_away(lab, 'load_from = "host"')
    assert lab.run("baseline").status == 0
    with lab.start("try", lab.experiment("faster", FASTER.format(root=lab.root)), "--json") as trying:
        lab.wait_for_server()
        seen: set[bytes] = set()
        while trying.poll() is None:
            seen |= loads()
        done = lab.finish(trying)
    assert done.status == 0, done
    assert done.json["trials"][0]["verdict"]["decision"] == "keep", done
    # It was sent over standard input, and a shell of the host's started it.
    assert any(b"zlib" in words for words in seen), seen
    assert not any(b"knowngood.loads.generator" in words for words in seen), seen
    assert loads() == set()
    lab.assert_known_good()


def loads() -> set[bytes]:
    """Command lines of the load generators that run now."""
    found: set[bytes] = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if b"knowngood.loads" in words or (b"import sys,zlib,json" in words and b"\0-c\0" in words):
                found.add(words)
    return found
