"""Bring every file of a transaction back. Decided per file from digests alone, hence safe to repeat after any crash."""

from __future__ import annotations

import errno
import os
import time
from typing import TYPE_CHECKING

from .files import OTHER, Disk, barrier, digest, exchange, is_same_file, move, settle, sha256, write_new
from .plan import BUILD_INPUTS, SECOND, Entry, bytecode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Undo:
    """One pass over a transaction's entries.

    Args:
        disk: The file system.
        entries: The transaction.
        pre_image: Stored pre-image of an entry by its number; None if it is lost.

    Attributes:
        notes: What a person should know; nothing is left to do about it.
        conflicts: What could not be put back without overwriting somebody's work.
    """

    def __init__(self, disk: Disk, entries: Sequence[Entry], pre_image: Callable[[int], bytes | None]) -> None:
        self._disk = disk
        self._entries = entries
        self._pre_image = pre_image
        self._spent: list[str] = []
        self.notes: list[str] = []
        self.conflicts: list[str] = []

    def drop_staging(self) -> None:
        """Undo a transaction that never touched a target: take the staged bytes away."""
        for entry in self._entries:
            if entry.hold and self._disk.status(entry.hold) is not None:
                self._disk.unlink(entry.hold)
        self._remove_directories()
        barrier(self._disk, (), self._directories())

    def put_back(self) -> None:
        """Undo a transaction whose files may have been swapped."""
        for number, entry in enumerate(self._entries):
            if entry.is_file:
                settle(self._disk, entry.hold)
                self._put_back_file(number, entry)
        self._put_back_bytecode()
        # Nothing is taken away before everything is back for certain.
        barrier(self._disk, (), self._directories())
        for hold in self._spent:
            self._disk.unlink(hold)
        self._remove_directories()
        barrier(self._disk, (), self._directories())

    def _directories(self) -> set[str]:
        found = {os.path.dirname(entry.path) for entry in self._entries}
        return {path for path in found if os.path.isdir(path)}

    def _put_back_file(self, number: int, entry: Entry) -> None:
        now, held = digest(self._disk, entry.path), digest(self._disk, entry.hold)
        if now == entry.pre:
            self._already_back(entry, held)
        elif now != entry.post:
            self._leave_drift(entry, now, held)
        elif entry.pre is None:
            self._take_out(entry, held)
        elif held not in (None, entry.pre, entry.post):
            self._give_foreign_back(entry)
        elif held == entry.pre or self._rebuild(number, entry, held):
            self._swap_back(entry)

    def _already_back(self, entry: Entry, held: str | None) -> None:
        """The path shows the pre-image: what is held is the new version, or the original beside an equal copy."""
        if held is None:
            return
        if held == entry.pre and not is_same_file(self._disk, entry.hold, entry.path):
            exchange(self._disk, entry.hold, entry.path)
        elif held not in (entry.pre, entry.post):
            self._keep_foreign(entry)
            return
        self._spent.append(entry.hold)

    def _keep_foreign(self, entry: Entry) -> None:
        """We were cut off just after taking somebody else's edit out: where the path is free it goes back there."""
        where = entry.hold
        if entry.pre is None:
            move(self._disk, entry.hold, entry.path)
            where = entry.path
        self.conflicts.append(f"{entry.path} was edited by somebody else; their bytes are kept as {where}")

    def _leave_drift(self, entry: Entry, now: str | None, held: str | None) -> None:
        """The path shows somebody else's bytes: leave them, and tell whether anything of ours is still underneath."""
        ours_is_out = held == entry.post if entry.post is not None else held is None
        what = "was deleted by somebody else" if now is None else "was edited by somebody else"
        if ours_is_out:
            if held is not None:
                self._spent.append(entry.hold)
            self.notes.append(f"{entry.path} {what} meanwhile; it was left alone")
        else:
            kept = f", the original lies in {entry.hold}" if held == entry.pre and held is not None else ""
            self.conflicts.append(f"{entry.path} {what} since it was applied; it was left alone{kept}")

    def _take_out(self, entry: Entry, held: str | None) -> None:
        """A file that was created: move it aside, look at what came out, put it back if it is not ours."""
        if held is not None:
            if held != entry.post:
                self.conflicts.append(f"{entry.hold} holds bytes of somebody else")
                return
            self._disk.unlink(entry.hold)
        self._disk.rename(entry.path, entry.hold)
        if digest(self._disk, entry.hold) == entry.post:
            self._spent.append(entry.hold)
            return
        move(self._disk, entry.hold, entry.path)
        self.conflicts.append(f"{entry.path} was edited by somebody else since it was applied; it was left alone")

    def _give_foreign_back(self, entry: Entry) -> None:
        """We displaced somebody else's edit, and were perhaps cut off just then: it belongs at the path."""
        if entry.post is None:
            move(self._disk, entry.hold, entry.path)
        else:
            exchange(self._disk, entry.hold, entry.path)
        if digest(self._disk, entry.hold) == entry.post:
            if entry.post is not None:
                self._spent.append(entry.hold)
            self.notes.append(f"{entry.path} was edited by somebody else meanwhile; their edit was put back")
            return
        exchange(self._disk, entry.hold, entry.path)
        self.conflicts.append(f"{entry.path} was edited twice by somebody else; {entry.hold} holds one edit")

    def _rebuild(self, number: int, entry: Entry, held: str | None) -> bool:
        """The parked original is lost: make it anew from its stored pre-image and recorded metadata."""
        data = self._pre_image(number)
        if data is None or sha256(data) != entry.pre or entry.meta is None:
            self.conflicts.append(f"{entry.path}: the parked original and its pre-image are both lost")
            return False
        if held is not None:
            self._disk.unlink(entry.hold)
        barrier(self._disk, [write_new(self._disk, entry.hold, data, entry.meta)])
        self.notes.append(f"{entry.path} was rebuilt from its pre-image; the original inode is lost")
        return True

    def _swap_back(self, entry: Entry) -> None:
        """The path shows our version and the original is parked: the one way of a normal revert."""
        if entry.post is None:
            try:
                move(self._disk, entry.hold, entry.path)
            except FileExistsError:
                self.conflicts.append(f"{entry.path} appeared meanwhile; it was left alone")
            return
        self._freshen(entry)
        status = self._disk.status(entry.path)
        exchange(self._disk, entry.hold, entry.path)
        if digest(self._disk, entry.hold) != entry.post:
            exchange(self._disk, entry.hold, entry.path)
            self.conflicts.append(f"{entry.path} was edited by somebody else during the revert; it was left alone")
            return
        if entry.meta and status and status.st_mode & 0o7777 != entry.meta.mode:
            self.notes.append(f"{entry.path}: its mode was changed by somebody else since; that went with the trial")
        self._spent.append(entry.hold)

    def _freshen(self, entry: Entry) -> None:
        """Give a build input a new time before it comes back, so that what was built from the trial's is rebuilt."""
        if entry.path.endswith(BUILD_INPUTS):
            self._disk.set_mtime(entry.hold, max(time.time_ns(), entry.mtime_ns + SECOND))

    def _put_back_bytecode(self) -> None:
        """Restore what was parked; what the trial compiled is derived and goes."""
        originals: dict[str, str | None] = {}
        for entry in self._entries:
            if entry.kind == "park":
                originals[entry.path] = entry.pre
                if self._disk.status(entry.hold) is not None:
                    self._disk.rename(entry.hold, entry.path)
        for entry in self._entries:
            if entry.is_file:
                for path in bytecode(self._disk, entry.path):
                    if digest(self._disk, path) not in (originals.get(path), OTHER):
                        self._disk.unlink(path)

    def _remove_directories(self) -> None:
        """Take the directories away that were made for the transaction, innermost first, unless somebody uses them."""
        for entry in reversed(self._entries):
            if entry.kind not in ("mkdir", "cache"):
                continue
            try:
                self._disk.rmdir(entry.path)
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                    if entry.kind == "mkdir" and not self.conflicts:
                        self.notes.append(f"{entry.path} is not empty; it was left")
                elif error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
