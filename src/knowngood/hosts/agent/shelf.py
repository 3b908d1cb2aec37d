"""The state directory: one directory a transaction, whose state is the name of one empty file in it.

::

    lock                      flock(2), held while a request runs; the kernel frees it with its holder
    seconds.json              path to the last whole second used for a version of it
    recover.py, recover.sh    undo everything by hand, without this package
    tx/SEQ-ID.new/            being written; garbage after a crash
    tx/SEQ-ID/intent.json     what is to be done, complete and durable before the first byte changes
    tx/SEQ-ID/intent.tsv      the same for a shell
    tx/SEQ-ID/N.pre           pre-image of entry N
    tx/SEQ-ID/S-STATE         intent, swap, commit (on the host for a trial), keep (known-good), revert, done
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from .files import Disk, Meta, barrier, write_new
from .plan import Entry, Plan, Refused, Unfinished

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

VERSION = 1
INTENT, SWAP, COMMIT, KEEP, REVERT, DONE = "intent", "swap", "commit", "keep", "revert", "done"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
RECORD = re.compile(rf"(\d{{10}})-({ID.pattern})")
NEW = ".new"
REMEMBERED = 100


class Record(NamedTuple):
    """A transaction on the shelf: its place in the order, its id, its directory, its state (None: lost)."""

    seq: int
    id: str
    directory: str
    state: str | None


class Intent(NamedTuple):
    """What a transaction does: its entries, and the paths as they were asked for."""

    entries: list[Entry]
    asked: dict[str, str]


class Shelf:
    """Transactions in a state directory. Everything but ``records`` and ``intent`` wants the lock."""

    def __init__(self, root: str, disk: Disk) -> None:
        self.root = os.path.abspath(root)
        self.tx = os.path.join(self.root, "tx")
        self._disk = disk

    def exists(self) -> bool:
        """Tell whether there ever was a transaction."""
        return os.path.isdir(self.tx)

    def prepare(self, scripts: Mapping[str, bytes]) -> None:
        """Make the state directory durable, with the recovery scripts in it; wants the lock."""
        if not self.exists():
            # The directory of transactions comes last: where it stands, everything above it is durable.
            above = [self.root]
            while above[-1] != os.path.dirname(above[-1]):
                above.append(os.path.dirname(above[-1]))
            barrier(self._disk, (), [path for path in above if os.access(path, os.R_OK)])
            self._disk.mkdir(self.tx, 0o700)
            barrier(self._disk, (), [self.root])
        for name, data in scripts.items():
            found = self._disk.read(os.path.join(self.root, name))
            if found is None or found[0] != data:
                self.replace(name, data)

    def _make_root(self) -> None:
        missing: list[str] = []
        directory: str = self.root
        while not os.path.isdir(directory):
            missing.append(directory)
            directory = os.path.dirname(directory)
        for path in reversed(missing):
            with suppress(FileExistsError):
                self._disk.mkdir(path, 0o700)

    def replace(self, name: str, data: bytes) -> None:
        """Put a file of the state directory in place, durably."""
        target = os.path.join(self.root, name)
        temporary = target + NEW
        if self._disk.status(temporary) is not None:
            self._disk.unlink(temporary)
        barrier(self._disk, [write_new(self._disk, temporary, data)])
        self._disk.rename(temporary, target)
        barrier(self._disk, (), [self.root])

    @contextmanager
    def locked(self, wait_s: float) -> Generator[None, None, None]:
        """Hold the journal; at most ``wait_s`` seconds of waiting.

        Raises:
            Refused: Somebody else is at work on it.
        """
        self._make_root()
        fd = os.open(os.path.join(self.root, "lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            deadline = time.monotonic() + wait_s
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= deadline:
                        raise Refused(f"somebody else is at work on the journal in {self.root}") from None
                    time.sleep(0.01)
            yield
        finally:
            os.close(fd)

    def records(self) -> list[Record]:
        """All transactions, oldest first."""
        found: list[Record] = []
        for name in self._disk.names(self.tx):
            match = RECORD.fullmatch(name)
            directory = os.path.join(self.tx, name)
            if match and not name.endswith(NEW):
                states = [entry[2:] for entry in self._disk.names(directory) if entry.startswith("S-")]
                found.append(Record(int(match.group(1)), match.group(2), directory, states[0] if states else None))
        return found

    def check_id(self, tx: str) -> None:
        """Check that an id can name a directory.

        Raises:
            Refused: It cannot.
        """
        if not ID.fullmatch(tx) or tx.endswith(NEW):
            raise Refused(f"{tx!r} is no transaction id (letters, digits, '.', '_', '-')")

    def find(self, tx: str) -> Record | None:
        """The transaction of an id, or None."""
        return next((record for record in self.records() if record.id == tx), None)

    def sweep(self) -> None:
        """Clear what a crash left half-written, and transactions undone long ago."""
        for name in self._disk.names(self.tx):
            if name.endswith(NEW):
                self._discard(os.path.join(self.tx, name))
        done = [record for record in self.records() if record.state == DONE]
        for record in done[:-REMEMBERED]:
            self._disk.rename(record.directory, record.directory + NEW)
            self._discard(record.directory + NEW)

    def _discard(self, directory: str) -> None:
        for name in self._disk.names(directory):
            self._disk.unlink(os.path.join(directory, name))
        self._disk.rmdir(directory)

    def seconds(self) -> dict[str, int]:
        """Path to the last whole second used for a version of it."""
        found = self._disk.read(os.path.join(self.root, "seconds.json"))
        try:
            return {} if found is None else {str(path): int(second) for path, second in json.loads(found[0]).items()}
        except (ValueError, AttributeError):
            # Damaged from outside: the files' own times and the clock remain.
            return {}

    def begin(self, tx: str, plan: Plan) -> Record:
        """Write an intent down, pre-images first. It appears by one rename, complete and durable, or not at all."""
        seq = max((record.seq for record in self.records()), default=0) + 1
        directory = os.path.join(self.tx, f"{seq:010d}-{tx}")
        fresh = directory + NEW
        temporary = os.path.join(self.root, "seconds.json" + NEW)
        seconds = dict(self.seconds(), **plan.seconds())
        contents = {os.path.join(fresh, name): data for name, data in describe(tx, plan).items()}
        contents[temporary] = encode(seconds)
        if self._disk.status(temporary) is not None:
            self._disk.unlink(temporary)
        self._disk.mkdir(fresh, 0o700)
        fds: list[int] = []
        try:
            for path, data in contents.items():
                fds.append(write_new(self._disk, path, data))
        except BaseException:
            for fd in fds:
                self._disk.close(fd)
            raise
        barrier(self._disk, fds, [fresh, self.tx])
        self._disk.rename(temporary, os.path.join(self.root, "seconds.json"))
        self._disk.rename(fresh, directory)
        barrier(self._disk, (), [self.root, self.tx])
        return Record(seq, tx, directory, INTENT)

    def intent(self, record: Record) -> Intent:
        """Read an intent.

        Raises:
            Unfinished: It is damaged, or written by a newer version; nothing of it may be touched.
        """
        path = os.path.join(record.directory, "intent.json")
        found = self._disk.read(path)
        try:
            body: dict[str, Any] = json.loads(found[0]) if found else {}
            if body["v"] != VERSION:
                raise Unfinished(f"{path} was written by another version ({body['v']}) of the journal")
            return Intent([decode(entry) for entry in body["entries"]], dict(body["asked"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Unfinished(f"{path} is damaged; the pre-images lie beside it") from error

    def pre_image(self, record: Record, number: int) -> bytes | None:
        """The stored pre-image of an entry."""
        found = self._disk.read(os.path.join(record.directory, f"{number}.pre"))
        return None if found is None else found[0]

    def step(self, record: Record, state: str) -> Record:
        """Go on to a state: the rename of an empty file, so that no disk is ever too full for it."""
        new = os.path.join(record.directory, f"S-{state}")
        if record.state is None:
            barrier(self._disk, [write_new(self._disk, new, b"")], [record.directory])
        elif record.state != state:
            self._disk.rename(os.path.join(record.directory, f"S-{record.state}"), new)
            barrier(self._disk, (), [record.directory])
        return record._replace(state=state)

    def forget(self, record: Record) -> None:
        """Drop the pre-images of a transaction that is undone."""
        for name in self._disk.names(record.directory):
            if name.endswith(".pre"):
                self._disk.unlink(os.path.join(record.directory, name))


def describe(tx: str, plan: Plan) -> dict[str, bytes]:
    """Files of a new transaction: name to bytes."""
    body = {
        "v": VERSION,
        "tx": tx,
        "at": time.time(),
        "asked": plan.asked,
        "entries": [dict(entry._asdict(), meta=entry.meta and entry.meta._asdict()) for entry in plan.entries],
    }
    lines = ["\t".join((e.kind, e.pre or "-", e.post or "-", e.hold or "-", e.path)) + "\n" for e in plan.entries]
    files = {
        f"{number}.pre": plan.before[entry.path]
        for number, entry in enumerate(plan.entries)
        if entry.is_file and entry.path in plan.before
    }
    return dict(files, **{"intent.json": encode(body), "intent.tsv": os.fsencode("".join(lines)), f"S-{INTENT}": b""})


def encode(value: object) -> bytes:
    """JSON of a value; file names that are no UTF-8 survive as escapes."""
    return json.dumps(value, indent=1, sort_keys=True).encode("ascii")


def decode(raw: dict[str, object]) -> Entry:
    """An entry out of its JSON."""
    fields: dict[str, object] = {name: raw[name] for name in Entry._fields}
    meta = fields["meta"]
    if isinstance(meta, dict):
        fields["meta"] = Meta(**meta)
    return Entry(**fields)  # type: ignore[arg-type]
