"""One holder of the machine at a time, across users and labs, and what happens when a holder vanishes.

Two things make a lease. The *lock*, a file that all users of the machine share, is held by a watcher process on the
machine, and by whoever took it; the kernel frees it with them. The *record* in the state directory carries the fencing
token: every request that changes something names its token, and is refused once that is no longer the current one.

The order is what makes a takeover safe: whoever gets the lock finds either a record that is free or has lapsed, or one
that is still held although its watcher is dead (killed, or a reboot). The latter is brought to known-good first.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

from .failures import Failure
from .files import Disk, barrier, write_new
from .journal import UNFINISHED, Journal
from .plan import JournalError
from .proc import boot_id, is_alive
from .runs import Runs
from .servers import Server
from .settings import SettingsBook

if TYPE_CHECKING:
    from collections.abc import Generator

# Root and users keep their journals in different places, so the lock lies where all of them may write.
SHARED = ("/run/lock", "/var/lock", "/tmp")  # noqa: S108 - opened without following or trusting it
LOCK = "knowngood.lock"
RECORD_FILE = "lease.json"
FOR_EVERYBODY = 0o666
STICKY_AND_OPEN = 0o1002
HELD, FREE, LAPSED = "held", "free", "lapsed"
STOP_GRACE_S = 5.0


def shared_lock() -> str:
    """The machine's lock file: in the first directory that everybody may write to and nobody may clean out."""
    for folder in SHARED:
        with suppress(OSError):
            if os.stat(folder).st_mode & STICKY_AND_OPEN == STICKY_AND_OPEN:
                return os.path.join(folder, LOCK)
    return os.path.join(SHARED[-1], LOCK)


def open_lock(path: str) -> int:
    """Open the lock file, making it for everybody; started programs do not inherit it.

    Raises:
        Failure: It cannot be opened, or is no regular file.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        try:
            # Without O_CREAT: in sticky directories the kernel refuses it for files of others (protected_regular).
            fd = os.open(path, flags)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, FOR_EVERYBODY))
                os.chmod(path, FOR_EVERYBODY)
            fd = os.open(path, flags)
    except OSError as error:
        raise Failure(
            "HostError",
            f"the lock {path} cannot be opened: {error.strerror}",
            "It must be a file that every user of knowngood may write; remove it if nobody uses it.",
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise Failure("HostError", f"the lock {path} is not a regular file", "Remove what stands there.")
    return fd


def take_lock(fd: int) -> bool:
    """Take the lock if it is free."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def write_note(fd: int, holder: dict[str, Any] | None) -> None:
    """Leave a note about the holder in the lock file; a full disk is no reason not to hold the lock."""
    with suppress(OSError):
        os.ftruncate(fd, 0)
        if holder is not None:
            os.pwrite(fd, json.dumps(holder).encode("ascii"), 0)


def read_note(fd: int) -> dict[str, Any]:
    """The holder's note; empty if it is not there yet."""
    try:
        return table_of(os.pread(fd, 1 << 16, 0))
    except (OSError, ValueError):
        return {}


def table_of(text: bytes) -> dict[str, Any]:
    """A JSON object; empty for any other JSON.

    Raises:
        ValueError: It is no JSON.
    """
    found: Any = json.loads(text)
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def describe_holder(holder: dict[str, Any]) -> str:
    """Who holds the machine, for what and since when."""
    if not holder:
        return "the machine is held by somebody else"
    return "the machine is held by {user} (process {pid}) for {purpose} since {since}".format(
        **{name: holder.get(name, "?") for name in ("user", "pid", "purpose", "since")}
    )


def busy(holder: dict[str, Any]) -> Failure:
    """The failure for a machine that is held."""
    if not holder:
        return Failure("Busy", describe_holder(holder), "Try again in a moment.")
    hint = f"Wait until it is done, or ask {holder.get('user', '?')}; their lab is {holder.get('lab') or 'gone'}."
    return Failure("Busy", describe_holder(holder), hint, holder)


class Book:
    """The record of a state directory's lease, and the gate that requests go through one at a time.

    Args:
        state: State directory.
    """

    def __init__(self, state: str) -> None:
        self.state = state
        self._path = os.path.join(state, RECORD_FILE)
        self._beat = os.path.join(state, "beat")

    def read(self) -> dict[str, Any]:
        """The record; empty before the first lease."""
        try:
            with open(self._path, "rb") as file:
                return table_of(file.read())
        except (FileNotFoundError, ValueError):
            return {}

    def write(self, record: dict[str, Any]) -> None:
        """Put the record in place, durably: a token must never be given out twice."""
        disk = Disk()
        temporary = self._path + ".new"
        if disk.status(temporary) is not None:
            disk.unlink(temporary)
        barrier(disk, [write_new(disk, temporary, json.dumps(record).encode("ascii"))])
        disk.rename(temporary, self._path)
        barrier(disk, (), [self.state])

    def beat(self) -> None:
        """Say that the holder lives."""
        with suppress(OSError):
            os.close(os.open(self._beat, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            os.utime(self._beat)

    def last_beat(self) -> int:
        """A number that changes with every beat."""
        try:
            return os.stat(self._beat).st_mtime_ns
        except OSError:
            return 0

    @contextmanager
    def gate(self) -> Generator[None, None, None]:
        """Hold the gate: while a request that changes something runs, nothing else does, no dead-man either."""
        os.makedirs(self.state, mode=0o700, exist_ok=True)
        fd = os.open(os.path.join(self.state, "gate"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def check(self, token: int) -> None:
        """Let only the holder change something, or anybody while nobody holds the machine; wants the gate.

        Raises:
            Failure: The token is an old one, or somebody else holds the machine.
        """
        record = self.read()
        current = int(record.get("token", 0)) if record.get("state") == HELD else 0
        if token == current:
            return
        if not token:
            if watcher_lives(record):
                raise busy(record["holder"])
            return
        since = f" at {record['ended']}" if record.get("token") == token and record.get("ended") else ""
        if not record:
            raise Failure(
                "HostError",
                f"the lease was lost: {self._path} is gone or cannot be read",
                "Did somebody remove the state directory? Then nobody can say what is left over:"
                " look for servers and edited files by hand.",
            )
        why = record.get("why") or "somebody else took the machine over"
        raise Failure(
            "HostError",
            f"the lease was lost{since}: {why}",
            "The host went back to known-good by itself. Try again; a longer [lease] ttl outlasts longer silences.",
        )

    def lapse(self, why: str) -> list[str]:
        """Bring the machine back to known-good in place of a holder that is gone; wants the gate.

        Returns:
            What could not be done.
        """
        record = self.read()
        token = int(record.get("token", 0))
        trouble: list[str] = []
        runs = Runs(os.path.join(self.state, "runs"))
        for launch in list(runs.all()):
            if launch.lease != token:
                continue
            try:
                if launch.boot == boot_id():
                    Server(launch, None, lambda: None).stop(STOP_GRACE_S)
                runs.forget(launch)
            except (Failure, OSError) as error:
                trouble.append(str(error))
        # Settings go first, they were set last.
        for book in (SettingsBook(self.state), Journal(self.state)):
            try:
                for status in book.recover():
                    if status.state == UNFINISHED:
                        trouble.extend(status.notes)
            except (JournalError, OSError) as error:
                trouble.append(str(error))
        # Only now: if we are cut off before this, the next one finds it held by nobody, and does it again.
        self.write(dict(record, state=LAPSED, why=why, ended=now_text(), trouble=trouble))
        return trouble


def watcher_lives(record: dict[str, Any]) -> bool:
    """Tell whether the watcher of a record is there."""
    watcher = record.get("watcher")
    return watcher is not None and record.get("boot") == boot_id() and is_alive(watcher[0], watcher[1])


def now_text() -> str:
    """This moment, ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
