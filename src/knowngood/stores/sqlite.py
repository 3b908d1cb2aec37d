"""Events in SQLite. The primary key is the compare-and-swap: two writers cannot both append the same version."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from knowngood.errors import Conflict, StoreError
from knowngood.model.events import Event

FORMAT = 1
SCHEMA = """
CREATE TABLE IF NOT EXISTS event (version INTEGER PRIMARY KEY, body BLOB NOT NULL) STRICT;
"""


class SqliteStore:
    """An append-only event log in one file, in write-ahead mode.

    A reader never blocks a writer, and a process killed between two appends loses nothing it has appended.

    Args:
        path: Database file; created, with its directory, by the first append.

    Raises:
        StoreError: The file is no event log, or one of a newer format.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.encode = msgspec.json.Encoder().encode
        self.decode = msgspec.json.Decoder(Event).decode

    def append(self, event: Event, *, after: int) -> int:
        """Append as version ``after + 1`` and return it; durable when it returns.

        Raises:
            Conflict: That version stands already.
            StoreError: The disk is full, or the file cannot be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self.connect()) as db, db:
                db.execute("INSERT INTO event VALUES (?, ?)", (after + 1, self.encode(event)))
        except sqlite3.IntegrityError as error:
            hint = "somebody else works in this lab: look at `knowngood status`, then run the command again"
            raise Conflict(f"version {after + 1} of {self.path} stands already", hint=hint) from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be written: {error}", hint="is the disk full or read-only?"
            ) from error
        return after + 1

    def events(self, *, since: int = 0) -> Iterator[tuple[int, Event]]:
        """All events with a version above ``since``, in order.

        Raises:
            StoreError: The file is damaged, or written by a newer knowngood.
        """
        if not self.path.exists():
            return
        try:
            with closing(self.connect()) as db:
                rows = db.execute("SELECT version, body FROM event WHERE version > ? ORDER BY version", (since,))
                for version, body in rows:
                    yield version, self.decode(body)
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            hint = "keep the file and ask for help: it holds all that was learned"
            raise StoreError(f"{self.path} cannot be read: {error}", hint=hint) from error

    def connect(self) -> sqlite3.Connection:
        """Open the file, make it one of ours if it is new.

        Raises:
            StoreError: It is one of a newer format.
        """
        db = sqlite3.connect(self.path, timeout=30)
        try:
            (found,) = db.execute("PRAGMA user_version").fetchone()
            if found > FORMAT:
                hint = "use the knowngood version that wrote it, or a newer one"
                raise StoreError(f"{self.path} has format {found}, this one reads {FORMAT}", hint=hint)  # noqa: TRY301
            if found < FORMAT:
                db.execute("PRAGMA journal_mode=WAL")
                db.executescript(SCHEMA + f"PRAGMA user_version={FORMAT};")
            db.execute("PRAGMA synchronous=FULL")
        except BaseException:
            db.close()
            raise
        return db
