import json
import os
import stat
import threading
from pathlib import Path

import pytest

from knowngood.errors import HostError, Refused, RevertFailed
from knowngood.hosts.agent import files, journal, plan, shelf
from knowngood.hosts.agent.service import state_directory
from knowngood.hosts.local import LocalHost
from knowngood.model.files import FileEdit


@pytest.fixture
def book(tmp_path: Path) -> journal.Journal:
    return journal.Journal(str(tmp_path / "state"), wait_s=0.0)


def create(path: Path, after: bytes = b"new") -> plan.Edit:
    return plan.Edit(str(path), None, after)


def edit(path: Path, after: bytes | None) -> plan.Edit:
    return plan.Edit(str(path), files.sha256(path.read_bytes()), after)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("relative", "not an absolute path"),
        ("/srv/with\ttab", "write down"),
        ("/srv/with\nnewline", "write down"),
        ("/srv/directory/", "write down"),
    ],
)
def test_paths_that_cannot_be_written_down_are_refused(book: journal.Journal, name: str, why: str) -> None:
    with pytest.raises(plan.Refused, match=why):
        book.apply("t", [plan.Edit(name, None, b"new")])


def test_a_path_in_the_journal_itself_is_refused(book: journal.Journal, tmp_path: Path) -> None:
    with pytest.raises(plan.Refused, match="the undo journal itself"):
        book.apply("t", [create(tmp_path / "state" / "x")])


def test_a_link_that_leads_nowhere_is_refused(book: journal.Journal, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(plan.Refused, match="leads nowhere"):
        book.apply("t", [create(tmp_path / "link")])


def test_a_file_named_twice_is_refused(book: journal.Journal, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    (tmp_path / "link").symlink_to("a")
    with pytest.raises(plan.Refused, match="twice"):
        book.apply("t", [edit(tmp_path / "a", b"1"), edit(tmp_path / "link", b"2")])


def test_a_file_below_a_file_is_refused(book: journal.Journal, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(plan.Refused, match="not a directory"):
        book.apply("t", [create(tmp_path / "a" / "b")])


def test_a_pipe_is_refused_without_waiting_for_it(book: journal.Journal, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(plan.Refused, match="not a regular file"):
        book.apply("t", [create(tmp_path / "pipe")])


@pytest.mark.parametrize("tx", ["", "../up", "a/b", "-x", "a b", "x.new", "a" * 101])
def test_ids_that_cannot_name_a_directory_are_refused(book: journal.Journal, tx: str) -> None:
    with pytest.raises(plan.Refused, match="no transaction id"):
        book.apply(tx, [])


def test_an_edit_that_changes_nothing_leaves_the_file_alone(book: journal.Journal, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    before = (tmp_path / "a").stat()
    status = book.apply("t", [edit(tmp_path / "a", b"old")])
    assert status.files == {str(tmp_path / "a"): files.sha256(b"old")}
    assert (tmp_path / "a").stat() == before


def test_every_version_gets_a_second_of_its_own(book: journal.Journal, tmp_path: Path) -> None:
    target = tmp_path / "m.py"
    target.write_bytes(b"0")
    seconds = {target.stat().st_mtime_ns // plan.SECOND}
    for number in range(5):
        book.apply(f"t{number}", [edit(target, b"%d" % (number + 1))])
        seconds.add(target.stat().st_mtime_ns // plan.SECOND)
        book.revert(f"t{number}")
    assert len(seconds) == 6


def test_the_state_directory_is_private(book: journal.Journal, tmp_path: Path) -> None:
    book.apply("t", [create(tmp_path / "a")])
    for path in (tmp_path / "state", *(tmp_path / "state").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0


def test_asking_creates_nothing(book: journal.Journal, tmp_path: Path) -> None:
    assert book.transactions() == []
    assert book.recover() == []
    assert list(tmp_path.iterdir()) == []


def test_two_at_once_the_second_is_refused(book: journal.Journal, tmp_path: Path) -> None:
    held = shelf.Shelf(str(tmp_path / "state"), files.Disk())
    with held.locked(0.0), pytest.raises(plan.Refused, match="somebody else is at work"):
        book.apply("t", [create(tmp_path / "a")])


def test_requests_of_threads_wait_for_each_other(tmp_path: Path) -> None:
    book = journal.Journal(str(tmp_path / "state"))
    threads = [threading.Thread(target=book.apply, args=(f"t{n}", [create(tmp_path / f"file{n}")])) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status.state for status in book.transactions()] == ["applied"] * 8


def test_a_damaged_intent_is_reported_and_others_are_recovered(book: journal.Journal, tmp_path: Path) -> None:
    book.apply("one", [create(tmp_path / "a")])
    book.apply("two", [create(tmp_path / "b")])
    (intent,) = (tmp_path / "state/tx").glob("*-two/intent.json")
    intent.write_bytes(b"{")
    states = {status.id: status.state for status in book.recover()}
    assert states == {"two": "unfinished", "one": "reverted"}
    assert not (tmp_path / "a").exists()
    assert (tmp_path / "b").exists()


def test_a_newer_journal_is_not_touched(book: journal.Journal, tmp_path: Path) -> None:
    book.apply("t", [create(tmp_path / "a")])
    (intent,) = (tmp_path / "state/tx").glob("*/intent.json")
    intent.write_text(json.dumps({**json.loads(intent.read_text()), "v": 99}))
    (status,) = book.recover()
    assert "another version" in status.notes[0]
    assert (tmp_path / "a").exists()


def test_a_lost_state_file_is_recovered_from_the_files(book: journal.Journal, tmp_path: Path) -> None:
    book.apply("t", [create(tmp_path / "a")])
    (state,) = (tmp_path / "state/tx").glob("*/S-commit")
    state.unlink()
    assert [status.state for status in book.recover()] == ["reverted"]
    assert not (tmp_path / "a").exists()


def test_damaged_seconds_are_no_obstacle(book: journal.Journal, tmp_path: Path) -> None:
    book.apply("t", [create(tmp_path / "a")])
    book.revert("t")
    (tmp_path / "state/seconds.json").write_bytes(b"\0")
    assert book.apply("u", [create(tmp_path / "a")]).state == "applied"


def test_a_lost_original_is_rebuilt_with_its_metadata(book: journal.Journal, tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    target.chmod(0o604)
    os.utime(target, ns=(10**18, 10**18 + 7))
    book.apply("t", [edit(target, b"new")])
    next(tmp_path.glob(".knowngood-*")).unlink()
    status = book.revert("t")
    assert "rebuilt" in status.notes[0]
    found = target.stat()
    assert (target.read_bytes(), stat.S_IMODE(found.st_mode), found.st_mtime_ns) == (b"old", 0o604, 10**18 + 7)


def test_both_copies_lost_is_said(book: journal.Journal, tmp_path: Path) -> None:
    target = tmp_path / "a"
    target.write_bytes(b"old")
    book.apply("t", [edit(target, b"new")])
    next(tmp_path.glob(".knowngood-*")).unlink()
    next(tmp_path.glob("state/tx/*/*.pre")).unlink()
    with pytest.raises(plan.Unfinished, match="both lost"):
        book.revert("t")
    assert target.read_bytes() == b"new"


def test_only_the_last_undone_transactions_are_remembered(
    book: journal.Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "REMEMBERED", 3)
    for number in range(shelf.REMEMBERED + 3):
        book.apply(f"t{number}", [])
        book.revert(f"t{number}")
    book.apply("last", [])
    assert len(list((tmp_path / "state/tx").iterdir())) == shelf.REMEMBERED + 1


def test_an_interrupt_is_passed_on_after_everything_is_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = files.Disk()
    (tmp_path / "a").write_bytes(b"old")

    def interrupted(*_: object) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(disk, "rename_flags", interrupted)
    book = journal.Journal(str(tmp_path / "state"), disk)
    with pytest.raises(KeyboardInterrupt):
        book.apply("t", [edit(tmp_path / "a", b"new")])
    assert book.transactions() == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "state"]


def test_the_adapter_names_who_and_what(tmp_path: Path) -> None:
    book = LocalHost(tmp_path / "state").journal
    with pytest.raises(Refused) as refused:
        book.apply("t", [FileEdit(path="relative", before=None, after=b"")])
    assert refused.value.hint
    book.apply("t", [FileEdit(path=str(tmp_path / "a"), before=None, after=b"new")])
    (tmp_path / "a").write_bytes(b"mine")
    with pytest.raises(RevertFailed) as failed:
        book.revert("t")
    assert str(tmp_path / "state") in failed.value.hint


def test_a_journal_that_cannot_be_opened_is_a_host_error(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/tx").mkdir()
    (tmp_path / "state/lock").mkdir()
    with pytest.raises(HostError, match="cannot be used"):
        LocalHost(tmp_path / "state").journal.recover()


def test_where_the_state_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KNOWNGOOD_STATE", str(tmp_path))
    assert state_directory() == str(tmp_path)
    monkeypatch.delenv("KNOWNGOOD_STATE")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_directory() == "/var/lib/knowngood"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directory() == str(tmp_path / "knowngood")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert state_directory() == str(tmp_path / ".local/state/knowngood")
