import json
import os
import stat
from pathlib import Path

import pytest

from knowngood.hosts.agent import lease
from knowngood.hosts.agent.failures import Failure
from knowngood.hosts.agent.proc import boot_id, own_name
from knowngood.hosts.agent.watch import holder_now, vanished


def test_the_lock_is_for_everybody(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    fd = lease.open_lock(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o666
    os.close(fd)


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Failure, match="cannot be opened"):
        lease.open_lock(str(tmp_path / "lock"))
    assert not (tmp_path / "elsewhere").exists()


def test_a_lock_that_is_a_directory_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(Failure):
        lease.open_lock(str(tmp_path))


def test_whoever_looks_sees_who_holds_it_and_takes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    assert holder_now(path) is None
    fd = lease.open_lock(path)
    assert holder_now(path) is None
    assert lease.take_lock(fd)
    lease.write_note(fd, {"user": "ada", "pid": 7, "purpose": "a trial", "since": "noon"})
    assert lease.describe_holder(holder_now(path) or {}) == (
        "the machine is held by ada (process 7) for a trial since noon"
    )
    os.close(fd)
    assert holder_now(path) is None


def test_a_holder_without_a_note_is_busy_all_the_same() -> None:
    assert lease.busy({}).kind == "Busy"


def test_root_and_users_share_one_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    private, shared = tmp_path / "private", tmp_path / "shared"
    private.mkdir(mode=0o755)
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.setattr(lease, "SHARED", tuple(map(str, (tmp_path / "missing", private, shared))))
    assert lease.shared_lock() == str(shared / lease.LOCK)


def book(folder: Path, **record: object) -> lease.Book:
    made = lease.Book(str(folder))
    held = {"token": 3, "state": lease.HELD, "boot": boot_id(), "watcher": own_name(), "holder": {"user": "ada"}}
    made.write({**held, **record})
    return made


def test_only_the_current_token_passes(tmp_path: Path) -> None:
    held = book(tmp_path)
    held.check(3)
    for token, kind in ((2, "HostError"), (0, "Busy")):
        with pytest.raises(Failure) as caught:
            held.check(token)
        assert caught.value.kind == kind


def test_a_token_that_has_lapsed_is_told_why(tmp_path: Path) -> None:
    lapsed = book(tmp_path, state=lease.LAPSED, why="silence", ended="noon")
    with pytest.raises(Failure, match="lost at noon: silence"):
        lapsed.check(3)
    lapsed.check(0)


def test_without_a_watcher_nobody_is_kept_out(tmp_path: Path) -> None:
    for gone in (book(tmp_path, boot="another"), book(tmp_path, watcher=[os.getpid(), 1])):
        gone.check(0)  # raises while a watcher lives
        assert gone.read()["state"]


def test_a_damaged_record_is_none(tmp_path: Path) -> None:
    (tmp_path / "lease.json").write_text("{")
    assert lease.Book(str(tmp_path)).read() == {}
    (tmp_path / "lease.json").write_text(json.dumps([1]))
    assert lease.Book(str(tmp_path)).read() == {}


@pytest.mark.parametrize(
    ("record", "silence_s", "words"),
    [
        ({"ttl": 5.0, "controller": None}, 4.9, ""),
        ({"ttl": 5.0, "controller": None}, 5.1, "nothing was heard"),
        ({"ttl": 5.0, "controller": list(own_name())}, 0.0, ""),
        ({"ttl": 5.0, "controller": [os.getpid(), 1]}, 0.0, "is gone"),
    ],
)
def test_when_a_holder_counts_as_gone(record: dict[str, object], silence_s: float, words: str) -> None:
    why = vanished(record, silence_s)
    assert words in why
    assert bool(why) is bool(words)


def test_a_state_directory_that_was_removed_is_not_called_a_takeover(tmp_path: Path) -> None:
    with pytest.raises(Failure, match=r"lease\.json is gone") as caught:
        lease.Book(str(tmp_path / "gone")).check(7)
    assert "went back" not in caught.value.hint
