import sqlite3
from pathlib import Path

import pytest

from knowngood.errors import Conflict, NotFound, StoreError
from knowngood.model.events import Recovered
from knowngood.stores.artifacts import ArtifactFolder
from knowngood.stores.sqlite import SqliteStore


def event(at: float) -> Recovered:
    return Recovered(at=at, did=("x",))


def test_events_come_back_in_order(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "deep" / "store.db")
    for number in range(3):
        assert store.append(event(number), after=number) == number + 1
    assert [(version, one.at) for version, one in SqliteStore(store.path).events(since=1)] == [(2, 1.0), (3, 2.0)]


def test_an_empty_lab_has_no_events_and_no_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    assert list(store.events()) == []
    assert not store.path.exists()


def test_the_second_of_two_writers_is_refused(tmp_path: Path) -> None:
    one, other = SqliteStore(tmp_path / "s.db"), SqliteStore(tmp_path / "s.db")
    one.append(event(1), after=0)
    with pytest.raises(Conflict):
        other.append(event(2), after=0)
    assert [at.at for _, at in other.events()] == [1.0]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    store.append(event(1), after=0)
    db = sqlite3.connect(store.path)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match="format 99"):
        list(store.events())


def test_a_file_that_is_no_store_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"not a database, but somebody's file " * 40)
    before = path.read_bytes()
    with pytest.raises(StoreError):
        list(SqliteStore(path).events())
    assert path.read_bytes() == before


def test_artifacts_are_found_by_their_digest(tmp_path: Path) -> None:
    folder = ArtifactFolder(tmp_path / "a")
    source = tmp_path / "f"
    source.write_bytes(b"raw")
    digest = folder.put(source)
    assert folder.put(b"raw") == digest
    assert folder.path(digest).read_bytes() == b"raw"
    assert [p.name for p in (tmp_path / "a").rglob("*") if p.is_file()] == [digest]


@pytest.mark.parametrize("digest", ["", "ab", "0" * 64])
def test_an_unknown_artifact_is_not_found(tmp_path: Path, digest: str) -> None:
    with pytest.raises(NotFound):
        ArtifactFolder(tmp_path).path(digest)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a file in the way")
    with pytest.raises(StoreError):
        ArtifactFolder(tmp_path / "a").put(b"x")


def test_an_event_that_could_not_be_read_back_is_not_written(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    store.append(event(1), after=0)
    with pytest.raises(StoreError, match="not finite"):
        store.append(event(float("nan")), after=1)
    assert [one.at for _, one in store.events()] == [1.0]


def test_a_log_never_begins_in_the_middle(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s.db")
    with pytest.raises(StoreError, match="ends at version 0, not at 3"):
        store.append(event(1), after=3)
    store.append(event(1), after=0)
    with sqlite3.connect(store.path) as db:
        db.execute("UPDATE event SET version = 2")
    with pytest.raises(StoreError, match="lacks the events from 1 to 1"):
        list(store.events())
