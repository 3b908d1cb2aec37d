"""What was edited by hand is handed over: captured, put back, tried, kept or not; nothing is lost on the way."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.conftest import RealLab

pytestmark = pytest.mark.e2e

SERVER = """\
import sys
from pathlib import Path
from knowngood.testing.sse_server import main
pace = (Path(__file__).parent / "engine" / "pace.txt").read_text().split()[0]
main([*sys.argv[1:], "--itl-ms", pace])
"""


@pytest.fixture
def engine(lab: "RealLab") -> Path:
    """A managed directory whose baseline is measured."""
    folder = lab.root / "engine"
    (folder / "sub").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "pace.txt").write_bytes(b"10 ms between tokens\r\n")
    (folder / "sub" / "table.bin").write_bytes(b"\0\1\2")
    (folder / "sub" / "old.py").write_text("OLD = 1\n")
    (folder / "link").symlink_to("pace.txt")
    (lab.root / "server.py").write_text(SERVER)
    text = (lab.root / "knowngood.toml").read_text()
    (lab.root / "knowngood.toml").write_text(f'[host]\nmanaged = ["engine"]\n{text}')
    done = lab.run("baseline", "--json")
    assert done.status == 0, done
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and not path.is_symlink()
        and ".git" not in path.parts
        and not path.name.startswith(".knowngood-")  # a keep parks the originals beside what it changed
    }


def edit_by_hand(folder: Path) -> None:
    (folder / "pace.txt").write_bytes(b"5 ms between tokens\r\n")
    (folder / "sub" / "table.bin").write_bytes(b"\0\1\3")
    (folder / "sub" / "old.py").unlink()
    (folder / "sub" / "new one.txt").write_text("NEW = 'ä'")
    (folder / ".git" / "index").write_text("not ours")


def test_edits_by_hand_become_an_experiment_that_is_tried_and_kept(lab: "RealLab", engine: Path) -> None:
    before = contents(engine)
    edit_by_hand(engine)
    after = contents(engine)
    status = lab.run("status", "--json")
    assert status.status == 3, status
    assert "-10 ms between tokens" in status.json["status"]["drift_diff"]
    refused = lab.run("try", lab.experiment("null", ""), "--json")
    assert (refused.status, refused.json["error"]) == (3, "Drift"), refused

    done = lab.run("capture", "--name", "by-hand", "--claim", "it is faster", "--yes", "--json")
    assert done.status == 0, done
    assert done.json["schema"] == "knowngood/capture/1"
    assert done.json["put_back"] is True
    assert len(done.json["changed"]) == 4
    assert contents(engine) == before
    assert (engine / ".git" / "index").read_text() == "not ours"
    lab.assert_known_good()

    tried = lab.run("try", "experiments/by-hand.toml", "--json")
    assert tried.json["trials"][0]["verdict"]["decision"] == "keep", tried
    assert contents(engine) == after
    lab.assert_known_good()
    assert lab.run("undo").status == 0
    assert contents(engine) == before
    lab.assert_known_good()


def test_the_patch_is_one_that_git_applies(lab: "RealLab", engine: Path) -> None:
    (engine / "pace.txt").write_bytes(b"5 ms between tokens\r\n")
    (engine / "sub" / "new one.txt").write_text("NEW = 1")
    (engine / "sub" / "old.py").unlink()
    after = contents(engine)
    assert lab.run("capture", "--name", "by-hand", "--yes").status == 0
    assert contents(engine) != after
    patch = lab.root / "experiments" / "by-hand.patch"
    subprocess.run(["git", "apply", "--unsafe-paths", "--directory", str(engine), str(patch)], cwd="/", check=True)
    assert contents(engine) == after


def test_a_dry_run_shows_all_and_changes_nothing(lab: "RealLab", engine: Path) -> None:
    edit_by_hand(engine)
    after = contents(engine)
    shown = lab.run("capture", "--dry-run")
    assert shown.status == 0, shown
    assert "+5 ms between tokens" in shown.out
    assert contents(engine) == after
    assert not (lab.root / "experiments").exists()
    asked = lab.run("capture", "--json")
    assert (asked.status, asked.json["hint"]) == (2, "--yes brings the host back without asking")
    assert not (lab.root / "experiments").exists()


def test_whoever_says_no_keeps_the_edits_on_the_host(lab: "RealLab", engine: Path) -> None:
    edit_by_hand(engine)
    after = contents(engine)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "knowngood", "capture", "--name", "by-hand"]
    with subprocess.Popen(command, cwd=lab.root, env=lab.env, stdin=theirs, stdout=subprocess.PIPE) as asking:
        os.close(theirs)
        os.write(ours, b"n\n")
        out, _ = asking.communicate(timeout=60)
    os.close(ours)
    assert b"the edits stand on the host" in out
    assert contents(engine) == after
    assert (lab.root / "experiments" / "by-hand.toml").exists()
    assert lab.run("status").status == 3


def test_only_what_was_asked_for_is_captured(lab: "RealLab", engine: Path) -> None:
    edit_by_hand(engine)
    other = (engine / "pace.txt").read_bytes()
    done = lab.run("capture", "--root", str(engine / "sub"), "--yes", "--json")
    assert done.status == 0, done
    assert sorted(Path(path).name for path in done.json["changed"]) == ["new one.txt", "old.py", "table.bin"]
    assert (engine / "pace.txt").read_bytes() == other
    assert lab.run("status").status == 3
    nowhere = lab.run("capture", "--root", "/etc", "--yes", "--json")
    assert nowhere.status == 2, nowhere
    assert "/etc is not managed" in nowhere.json["message"]


def test_what_a_diff_cannot_say_stays_on_the_host(lab: "RealLab", engine: Path) -> None:
    (engine / "sub" / "table.bin").unlink()
    (engine / "pace.txt").unlink()
    (engine / "pace.txt").symlink_to("/dev/null")
    done = lab.run("capture", "--yes", "--json")
    assert done.status == 0, done
    assert done.json["changed"] == []
    assert any("table.bin" in line for line in done.json["left_out"])
    assert any("pace.txt" in line for line in done.json["left_out"])
    assert (engine / "pace.txt").is_symlink()


def test_nothing_edited_is_nothing_captured(lab: "RealLab", engine: Path) -> None:
    os.utime(engine / "pace.txt", (1, 1))
    done = lab.run("capture", "--yes", "--json")
    assert (done.status, done.json["changed"], done.json["files"]) == (0, [], []), done
    lab.assert_known_good()


def test_a_kept_edit_can_be_undone_after_a_capture_of_the_same_file(lab: "RealLab", engine: Path) -> None:
    first = (engine / "pace.txt").read_bytes()
    text = '[[change]]\nedit = "engine/pace.txt"\nfind = "10"\nreplace = "5"\n'
    assert lab.run("try", lab.experiment("faster", text), "--gate").status == 0
    kept = (engine / "pace.txt").read_bytes()
    (engine / "pace.txt").write_bytes(kept + b"# by hand\n")
    assert lab.run("capture", "--yes").status == 0
    assert (engine / "pace.txt").read_bytes() == kept
    assert lab.run("undo").status == 0
    assert (engine / "pace.txt").read_bytes() == first
    assert not list(engine.glob(".knowngood*"))
    lab.assert_known_good()


def test_a_new_baseline_takes_the_edits_as_they_are(lab: "RealLab", engine: Path) -> None:
    (engine / "pace.txt").write_bytes(b"9 ms between tokens\n")
    assert lab.run("baseline").status == 0
    lab.assert_known_good()


@pytest.mark.parametrize("delay", [0.15, 0.25, 0.35, 0.5])
def test_killed_anywhere_the_edits_are_on_the_host_or_in_the_experiment(
    lab: "RealLab", engine: Path, delay: float
) -> None:
    before = contents(engine)
    edit_by_hand(engine)
    after = contents(engine)
    with lab.start("capture", "--name", "by-hand", "--yes") as capturing:
        time.sleep(delay)
        capturing.send_signal(signal.SIGKILL)
        lab.finish(capturing)
    assert lab.run("recover").status in (0, 3)
    if contents(engine) != after:
        assert contents(engine) == before
        assert lab.run("try", "experiments/by-hand.toml", "--dry-run").status == 0
