"""What a set of edits comes to on this host: checked, but nothing changed yet."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from .files import OTHER, Disk, Irregular, Meta, digest, meta_of, sha256

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECOND = 10**9
NEW_FILE_MODE = 0o644
# Room for the journal's own records beside the pre-images.
RECORD_BYTES = 1 << 16
# make and ninja rebuild only what is older than an input: with its old time back, the trial's binary would stay.
BUILD_INPUTS = tuple(
    ".c .cc .cpp .cxx .cu .cuh .h .hh .hpp .inc .s .S .ptx .pyx .pxd .rs .cmake .ninja".split()  # noqa: SIM905 - 18 lines
)


class JournalError(Exception):
    """Root of what the journal raises."""


class Refused(JournalError):
    """The host cannot take this; nothing was changed, or everything was put back."""


class Drift(JournalError):
    """A file is not what the plan was made for; nothing was changed, or everything was put back."""


class Unfinished(JournalError):
    """Not everything could be put back; what is missing is in the message, and nothing was overwritten."""


class Edit(NamedTuple):
    """One file: where the bytes of digest ``before`` stand (None: nothing), ``after`` shall stand (None: nothing)."""

    path: str
    before: str | None
    after: bytes | None


class Entry(NamedTuple):
    """One name that a transaction changes.

    Attributes:
        kind: ``edit``, ``create`` or ``remove`` a file; ``park`` a module's bytecode; ``mkdir`` a directory that is
            missing; ``cache`` a bytecode directory that does not exist yet and goes away again if it is empty.
        path: Its real path.
        hold: Name beside it, first of the new bytes, after the swap of the original inode.
        pre: Digest before; None for nothing.
        post: Digest after; None for nothing.
        mtime_ns: Time given to the new bytes.
        meta: Metadata of the original.
    """

    kind: str
    path: str
    hold: str = ""
    pre: str | None = None
    post: str | None = None
    mtime_ns: int = 0
    meta: Meta | None = None

    @property
    def is_file(self) -> bool:
        """Whether it stands for a file of the change set."""
        return self.kind in ("edit", "create", "remove")


class Plan(NamedTuple):
    """A set of edits, ready to be written down.

    Attributes:
        entries: In the order in which they are carried out.
        asked: Path as asked for, to real path.
        before: Entry's path to its pre-image.
        after: Entry's path to its new bytes.
    """

    entries: list[Entry]
    asked: dict[str, str]
    before: dict[str, bytes]
    after: dict[str, bytes]

    def seconds(self) -> dict[str, int]:
        """Path to the last whole second that this plan gives to a version of it."""
        return {entry.path: entry.mtime_ns // SECOND for entry in self.entries if entry.mtime_ns}


def make_plan(disk: Disk, edits: Sequence[Edit], token: str, root: str, seconds: Mapping[str, int]) -> Plan:
    """Check a set of edits against the host.

    Args:
        disk: The file system.
        edits: What is asked for.
        token: Makes the names of the holds unique.
        root: State directory, which no edit may touch.
        seconds: Path to the last whole second already used for a version of it.

    Raises:
        Drift: A file is not what the edit was made for.
        Refused: The host cannot take the set.
    """
    plan = Plan([], {}, {}, {})
    mounts = disk.mounts()
    made: set[str] = set()
    for edit in edits:
        path = real_path(disk, edit.path, root)
        if path in plan.asked.values():
            raise Refused(f"{edit.path} is named twice in one change set")
        if path in mounts:
            raise Refused(f"{path} is a mount point of its own; apply the change where its file comes from")
        plan.asked[edit.path] = path
        before, meta = look(disk, path)
        pre = None if before is None else sha256(before)
        if pre != edit.before:
            raise Drift(f"{path} is not the file this change was made for{gone_or_there(before, edit.before)}")
        post = None if edit.after is None else sha256(edit.after)
        if pre != post:
            add_file(disk, plan, Entry("", path, "", pre, post, 0, meta), token, seconds, made)
            if before is not None:
                plan.before[path] = before
            if edit.after is not None:
                plan.after[path] = edit.after
    check_room(disk, plan, root)
    return plan


def gone_or_there(found: bytes | None, expected: str | None) -> str:
    """Say what is wrong about a file that is not the expected one."""
    if found is None:
        return ": it is gone"
    return ": nothing was expected there" if expected is None else ": its bytes differ"


def real_path(disk: Disk, asked: str, root: str) -> str:
    """The file that a path leads to, symbolic links followed.

    Raises:
        Refused: It is not absolute, cannot be written down, leads nowhere, or leads into the journal.
    """
    if not os.path.isabs(asked):
        raise Refused(f"{asked!r} is not an absolute path")
    path = os.path.realpath(asked)
    if any(char in path for char in "\0\t\n") or path.endswith(os.sep) or asked.endswith(os.sep):
        raise Refused(f"{asked!r} is no path of a file that the journal can write down")
    if disk.status(asked) is not None and disk.status(path) is None:
        raise Refused(f"{asked} is a symbolic link that leads nowhere")
    if os.path.commonpath((root, path)) == root:
        raise Refused(f"{asked} belongs to the undo journal itself")
    return path


def look(disk: Disk, path: str) -> tuple[bytes | None, Meta | None]:
    """Bytes and metadata of a file.

    Raises:
        Refused: It is no regular file, cannot be read, or cannot be changed.
    """
    try:
        found = disk.read(path)
        if found is None:
            return None, None
        if disk.immutable(path):
            raise Refused(f"{path} is immutable or append-only (lsattr shows it)")
        return found[0], meta_of(disk, path, found[1])
    except Irregular as error:
        raise Refused(f"{path} is not a regular file") from error
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error


def add_file(disk: Disk, plan: Plan, entry: Entry, token: str, seconds: Mapping[str, int], made: set[str]) -> None:
    """Add a file to the plan: first the directories it needs and its bytecode, then itself."""
    directory = os.path.dirname(entry.path)
    for missing in missing_directories(disk, directory):
        if missing not in made:
            made.add(missing)
            plan.entries.append(Entry("mkdir", missing))
    standing: str = directory
    while standing in made:
        standing = os.path.dirname(standing)
    if not disk.writable(standing):
        raise Refused(f"{standing} is not writable")
    add_bytecode(disk, plan, entry.path, token, made)
    hold = hold_name(disk, entry.path, token, len(plan.entries))
    if entry.post is None:
        plan.entries.append(entry._replace(kind="remove", hold=hold))
        return
    # Bytecode is trusted when its source's whole second and size agree, so no two versions may share a second.
    last = max(seconds.get(entry.path, 0), entry.meta.mtime_ns // SECOND if entry.meta else 0)
    mtime_ns = max(time.time_ns(), (last + 1) * SECOND)
    kind = "create" if entry.pre is None else "edit"
    plan.entries.append(entry._replace(kind=kind, hold=hold, mtime_ns=mtime_ns))


def hold_name(disk: Disk, path: str, token: str, number: int) -> str:
    """Name beside a file; hidden, and with no suffix that a loader of configurations would pick up.

    Raises:
        Refused: It is taken, which only a journal that was deleted by hand can have left behind.
    """
    hold = os.path.join(os.path.dirname(path), f".knowngood-{token}-{number}")
    if disk.status(hold) is not None:
        raise Refused(f"{hold} stands in the way")
    return hold


def missing_directories(disk: Disk, directory: str) -> list[str]:
    """Directories that have to be made for a path, outermost first.

    Raises:
        Refused: Something else stands where a directory is needed.
    """
    missing: list[str] = []
    while disk.status(directory) is None:
        missing.insert(0, directory)
        directory = os.path.dirname(directory)
    if not os.path.isdir(directory):
        raise Refused(f"{directory} is not a directory")
    return missing


def cache_directory(path: str) -> str | None:
    """Where CPython keeps the bytecode of a source file; None if it is no Python source."""
    return os.path.join(os.path.dirname(path), "__pycache__") if path.endswith(".py") else None


def bytecode(disk: Disk, path: str) -> list[str]:
    """Bytecode files of a Python source, all interpreters and optimization levels."""
    cache = cache_directory(path)
    if cache is None:
        return []
    stem = os.path.basename(path)[: -len(".py")] + "."
    return [os.path.join(cache, name) for name in disk.names(cache) if name.startswith(stem) and name.endswith(".pyc")]


def add_bytecode(disk: Disk, plan: Plan, path: str, token: str, made: set[str]) -> None:
    """Park a source's bytecode before the source changes, so that what comes back is what was there."""
    cache = cache_directory(path)
    if cache is None:
        return
    if disk.status(cache) is None and cache not in made:
        made.add(cache)
        plan.entries.append(Entry("cache", cache))
    for name in bytecode(disk, path):
        pre = digest(disk, name)
        if pre not in (None, OTHER):
            plan.entries.append(Entry("park", name, hold_name(disk, name, token, len(plan.entries)), pre))


def check_room(disk: Disk, plan: Plan, root: str) -> None:
    """Check that every file system can take the bytes that will be written to it.

    Raises:
        Refused: One is read-only or too full; staging would find out too, but this message is better.
    """
    made = {entry.path for entry in plan.entries if entry.kind in ("mkdir", "cache")}
    needed = {root: sum(map(len, plan.before.values())) + RECORD_BYTES}
    for entry in plan.entries:
        directory: str = os.path.dirname(entry.path)
        while directory in made:
            directory = os.path.dirname(directory)
        needed[directory] = needed.get(directory, 0) + len(plan.after.get(entry.path, b""))
    by_device: dict[int, int] = {}
    for directory, size in needed.items():
        device = os.stat(directory).st_dev
        by_device[device] = by_device.get(device, 0) + size
        free, read_only = disk.space(directory)
        if read_only:
            raise Refused(f"{directory} is on a read-only file system")
        if by_device[device] > free:
            raise Refused(f"no space: {directory} has {free} bytes free, {by_device[device]} are needed")
