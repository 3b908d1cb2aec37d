"""Bringing the host back where the lab's own memory is of no help: damaged, gone, cut off at the wrong moment."""

import os
import shutil
import signal
import sqlite3
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

FASTER = '[[change]]\nedit = "pace.txt"\nfind = "10"\nreplace = "5"\n'


def cut_off(lab: "RealLab") -> None:
    """Leave a trial behind with its edits applied and its server running: the tool and its watcher are killed."""
    with lab.start("try", lab.experiment("faster", FASTER)) as trying:
        lab.wait_for_server()
        for watcher in watchers(lab):
            os.kill(watcher, signal.SIGKILL)
        trying.send_signal(signal.SIGKILL)
        lab.finish(trying)


def watchers(lab: "RealLab") -> list[int]:
    """Processes of the host's watcher for this lab's state."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(lab.state).encode() in words and b"watch" in words:
                found.append(int(folder.name))
    return found


@pytest.mark.parametrize("damage", ["junk", "empty"])
def test_a_memory_that_cannot_be_read_does_not_keep_the_host_from_coming_back(measured: "RealLab", damage: str) -> None:
    before = measured.pace.read_bytes()
    cut_off(measured)
    assert measured.pace.read_bytes() != before
    store = measured.root / ".knowngood" / "store.db"
    for path in store.parent.glob("store.db-*"):
        path.unlink()
    store.write_bytes(b"junk" * 5000 if damage == "junk" else b"")
    status = measured.run("status")
    assert status.status == 3, status
    recovered = measured.run("recover", "--json")
    assert "file edits" in " ".join(recovered.json["did"]), recovered
    assert measured.pace.read_bytes() == before
    assert measured.servers() == []
    if damage == "junk":
        assert recovered.status == 3, recovered
        assert "cannot be read" in recovered.json["memory"]
        assert store.read_bytes() == b"junk" * 5000


def test_a_memory_that_is_removed_during_a_trial_does_not_become_another_one(measured: "RealLab") -> None:
    before = measured.pace.read_bytes()
    with measured.start("try", measured.experiment("faster", FASTER)) as trying:
        measured.wait_for_server()
        shutil.rmtree(measured.root / ".knowngood")
        done = measured.finish(trying)
    assert done.status != 0, done
    assert measured.pace.read_bytes() == before
    status = measured.run("status", "--json")
    assert status.json["schema"] == "knowngood/status/1", status
    assert measured.run("recover").status in (0, 3)
    assert measured.servers() == []


@pytest.mark.parametrize("how", ["killed", "locked"])
def test_an_undo_that_is_cut_off_before_it_is_recorded_is_finished_by_recover(measured: "RealLab", how: str) -> None:
    before = measured.pace.read_bytes()
    assert measured.run("try", measured.experiment("faster", FASTER)).status == 0
    kept = measured.pace.read_bytes()
    assert kept != before
    store = sqlite3.connect(measured.root / ".knowngood" / "store.db", timeout=5, isolation_level=None)
    store.execute("BEGIN IMMEDIATE")
    with measured.start("undo") as undoing:
        until = time.monotonic() + 30
        while measured.pace.read_bytes() != before:
            assert time.monotonic() < until, "nothing was taken back"
            time.sleep(0.01)
        if how == "killed":
            undoing.send_signal(signal.SIGKILL)
        measured.finish(undoing, timeout=90)
    store.rollback()
    store.close()
    status = measured.run("status", "--json")
    assert status.status == 3, status
    assert any("undo of t0001 was cut off" in line for line in status.json["status"]["left_over"]), status
    recovered = measured.run("recover", "--json")
    assert recovered.status == 0, recovered
    assert "undo of t0001 was cut off; it is done" in recovered.json["did"]
    measured.assert_known_good()
    assert measured.run("undo", "--dry-run", "--json").json["message"] == "nothing is kept"


def test_recover_does_not_call_a_drifted_host_known_good(measured: "RealLab") -> None:
    assert measured.run("try", measured.experiment("faster", FASTER)).status == 0
    measured.pace.write_text("7 ms, by hand\n")
    recovered = measured.run("recover")
    assert recovered.status == 3, recovered
    assert "the host is at known-good" not in recovered.out
    assert "drift:" in recovered.out


def test_a_managed_directory_that_is_gone_hides_nothing(lab: "RealLab") -> None:
    (lab.root / "conf").mkdir()
    (lab.root / "conf" / "a.cfg").write_text("a\n")
    file = lab.root / "knowngood.toml"
    file.write_text('[host]\nmanaged = ["conf"]\n' + file.read_text())
    assert lab.run("baseline").status == 0
    cut_off(lab)
    (lab.root / "conf").rename(lab.root / "elsewhere")
    status = lab.run("status", "--json")
    assert status.status == 3, status
    assert any("file edits" in line for line in status.json["status"]["left_over"]), status
    assert any("managed" in line for line in status.json["status"]["drift"]), status
    assert lab.run("recover").status == 3
    (lab.root / "elsewhere").rename(lab.root / "conf")
    lab.assert_known_good()
