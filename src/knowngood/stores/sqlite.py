"""Events in SQLite. The primary key is the compare-and-swap: two writers cannot both append the same version."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import msgspec

from knowngood.errors import Conflict, StoreError
from knowngood.model.events import Event

FORMAT = 1
LEAST_DISK = 100_000
KEEP_IT = "keep the file: it holds all that was learned; `knowngood recover` brings the host back without it"
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
            StoreError: The disk is full, the file cannot be written or is not the one that was read, or the event could
                not be read back.
        """
        body = self.readable(event)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(self.connect()) as db, db:
                (last,) = db.execute("SELECT coalesce(max(version), 0) FROM event").fetchone()
                if last < after:
                    hint = "was .knowngood removed meanwhile? `knowngood status` says how the host is"
                    raise StoreError(f"{self.path} ends at version {last}, not at {after}", hint=hint)
                db.execute("INSERT INTO event VALUES (?, ?)", (after + 1, body))
        except sqlite3.IntegrityError as error:
            hint = "somebody else works in this lab: look at `knowngood status`, then run the command again"
            raise Conflict(f"version {after + 1} of {self.path} stands already", hint=hint) from error
        except (sqlite3.Error, OSError) as error:
            raise StoreError(
                f"{self.path} cannot be written: {error}", hint="is the disk full or read-only?"
            ) from error
        return after + 1

    def readable(self, event: Event) -> bytes:
        """An event as it is stored.

        Raises:
            StoreError: It would make the whole log unreadable: JSON has no number for what is not finite.
        """
        body = self.encode(event)
        try:
            self.decode(body)
        except msgspec.MsgspecError as error:
            hint = "this is a bug if you did not give such a number; nothing was written"
            raise StoreError(f"{type(event).__name__} holds a number that is not finite: {error}", hint=hint) from error
        return body

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
                for last, (version, body) in enumerate(rows, start=since):
                    if version != last + 1:
                        raise StoreError(f"{self.path} lacks the events from {last + 1} to {version - 1}", hint=KEEP_IT)
                    yield version, self.decode(body)
        except (sqlite3.Error, msgspec.MsgspecError) as error:
            full = shutil.disk_usage(self.path.parent).free < LEAST_DISK
            hint = f"the disk is full: make room in {self.path.parent}" if full else KEEP_IT
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
