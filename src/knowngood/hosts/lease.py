"""One holder of the machine at a time, across users and labs: a lock that the kernel frees when its holder dies."""

import fcntl
import getpass
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from knowngood.errors import Busy, HostError

# Root and users keep their journals in different places, so the lock lies where all of them may write.
SHARED = (Path("/run/lock"), Path("/var/lock"), Path("/tmp"))  # noqa: S108 - opened without following or trusting it
NAME = "knowngood.lock"
FOR_EVERYBODY = 0o666
STICKY_AND_OPEN = 0o1002


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who holds the machine; a note for people, the lock itself is what counts.

    Attributes:
        user: Login name.
        pid: Process id.
        purpose: What for.
        since: When it was taken, ISO 8601 in UTC.
        lab: Directory that the holder worked in.
    """

    user: str
    pid: int
    purpose: str
    since: str
    lab: str


def shared_path() -> Path:
    """The machine's lock file: in the first directory that everybody may write to and nobody may clean out."""
    for folder in SHARED:
        with suppress(OSError):
            if folder.stat().st_mode & STICKY_AND_OPEN == STICKY_AND_OPEN:
                return folder / NAME
    return SHARED[-1] / NAME


@contextmanager
def hold(path: Path, purpose: str) -> Generator[None]:
    """Hold the lock for the length of a block.

    Args:
        path: Lock file.
        purpose: What for; others see it.

    Raises:
        Busy: Somebody holds it; the message says who, for what and since when.
        HostError: The lock file cannot be used.
    """
    fd = open_lock(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise busy(read_holder(fd)) from error
        write_holder(fd, purpose)
        yield
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def open_lock(path: Path) -> int:
    """Open the lock file, making it for everybody; started programs do not inherit it.

    Raises:
        HostError: It cannot be opened, or is no regular file.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            # Without O_CREAT: in sticky directories the kernel refuses it for files of others (protected_regular).
            fd = os.open(path, flags)
        except FileNotFoundError:
            with suppress(FileExistsError):
                os.close(os.open(path, flags | os.O_CREAT | os.O_EXCL, FOR_EVERYBODY))
                path.chmod(FOR_EVERYBODY)
            fd = os.open(path, flags)
    except OSError as error:
        raise HostError(
            f"the lock {path} cannot be opened: {error.strerror}",
            hint="It must be a file that every user of knowngood may write; remove it if nobody uses it.",
        ) from error
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise HostError(f"the lock {path} is not a regular file", hint="Remove what stands there.")
    return fd


def write_holder(fd: int, purpose: str) -> None:
    """Leave a note about this process in the lock file; a full disk is no reason not to hold the lock."""
    holder = Holder(
        user=login(), pid=os.getpid(), purpose=purpose, since=datetime.now(UTC).isoformat("T", "seconds"), lab=here()
    )
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(holder), 0)


def read_holder(fd: int) -> Holder | None:
    """The holder's note; None if it is not there yet."""
    try:
        return msgspec.json.decode(os.pread(fd, 1 << 16, 0), type=Holder)
    except (OSError, msgspec.DecodeError):
        return None


def busy(holder: Holder | None) -> Busy:
    """The error for a machine that is held."""
    if holder is None:
        return Busy("the machine is held by somebody else", hint="Try again in a moment.")
    return Busy(
        f"the machine is held by {holder.user} (process {holder.pid}) for {holder.purpose} since {holder.since}",
        hint=f"Wait until it is done, or ask {holder.user}; their lab is {holder.lab}.",
        user=holder.user,
        pid=holder.pid,
        purpose=holder.purpose,
        since=holder.since,
        lab=holder.lab,
    )


def login() -> str:
    """Login name, or the user's number where there is none (containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def here() -> str:
    """Working directory; empty if it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""
