"""Exact undo of a set of file edits: pre-images first, compare-and-swap per file, all or nothing.

A transaction goes ``intent -> swap -> commit [-> keep] -> revert -> done``; each step is durable before the next.

1. intent: pre-images and the whole recovery plan are written; the new bytes are staged beside their targets.
2. swap: every target exchanges its name with its staged bytes, and what comes out must be the pre-image.
3. commit: all targets show the new bytes; the originals are parked beside them, as the very inodes they were.
4. revert: the same exchange backwards. It needs no space and brings back mode, owner, ACL, links and time by itself.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from .files import Disk, Meta, barrier, digest, exchange, move, write_new
from .plan import NEW_FILE_MODE, Drift, Edit, Entry, JournalError, Plan, Refused, Unfinished, make_plan
from .shelf import COMMIT, DONE, INTENT, KEEP, REVERT, SWAP, Record, Shelf
from .undo import Undo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

UNFINISHED = "unfinished"
WORDS = {COMMIT: "applied", KEEP: "kept", DONE: "reverted"}


class Status(NamedTuple):
    """A transaction as it stands.

    Attributes:
        id: Given by whoever applied it.
        state: ``applied``, ``kept``, ``reverted`` or ``unfinished``.
        files: Path as asked for, to the SHA-256 of what stands there now (None: nothing).
        notes: What a person must know.
    """

    id: str
    state: str
    files: dict[str, str | None]
    notes: tuple[str, ...] = ()


class Journal:
    """The journal of one state directory.

    Args:
        root: State directory; made on the first ``apply``.
        disk: The file system.
        scripts: Recovery scripts left in the state directory before anything is changed: name to bytes.
        wait_s: How long to wait for somebody else's request to end, in seconds.
    """

    def __init__(
        self,
        root: str,
        disk: Disk | None = None,
        scripts: Mapping[str, bytes] | None = None,
        wait_s: float = 10.0,
    ) -> None:
        self._disk = Disk() if disk is None else disk
        self._shelf = Shelf(root, self._disk)
        self._scripts: Mapping[str, bytes] = {} if scripts is None else scripts
        self._wait_s = wait_s

    def apply(self, tx: str, edits: Sequence[Edit]) -> Status:
        """Put a set of edits on the host; asked again with the same id, answer with its state.

        Raises:
            Drift: A file is not what the plan was made for; everything is as before.
            Refused: The host cannot take the set; everything is as before.
            Unfinished: It failed, and not everything could be put back.
        """
        self._shelf.check_id(tx)
        try:
            with self._shelf.locked(self._wait_s):
                self._shelf.prepare(self._scripts)
                found = self._shelf.find(tx)
                if found is not None:
                    return self._status(found)
                self._shelf.sweep()
                self._check_finished()
                token = f"{os.getuid()}-{os.urandom(4).hex()}"
                plan = make_plan(self._disk, edits, token, self._shelf.root, self._shelf.seconds())
                return self._carry_out(tx, plan)
        except OSError as error:
            raise Refused(describe_error(error)) from error

    def keep(self, tx: str) -> Status:
        """Make an applied transaction part of the known-good state.

        Raises:
            Refused: It is not applied.
        """
        with self._shelf.locked(self._wait_s):
            record = self._known(tx)
            if record.state == COMMIT:
                record = self._shelf.step(record, KEEP)
            if record.state != KEEP:
                raise Refused(f"transaction {tx} is {word(record)}, so it cannot be kept")
            return self._status(record)

    def forget(self, tx: str) -> Status:
        """Let go of a kept transaction: what stands there stays, nothing of it is parked any more, no undo is left.

        Raises:
            Refused: It is not kept.
        """
        with self._shelf.locked(self._wait_s):
            record = self._known(tx)
            if record.state not in (KEEP, DONE):
                raise Refused(f"transaction {tx} is {word(record)}, so it cannot be forgotten")
            entries = self._shelf.intent(record).entries
            for entry in entries:
                # Somebody else's bytes are never thrown away; the stored pre-image stands in until the last step.
                if entry.hold and entry.pre and digest(self._disk, entry.hold) == entry.pre:
                    self._disk.unlink(entry.hold)
            record = self._shelf.step(record, DONE)
            self._shelf.forget(record)
            return self._status(record)

    def revert(self, tx: str) -> Status:
        """Bring every file of a transaction, applied or kept, back to what it was.

        Raises:
            Refused: A later transaction changed the same files; revert that first. Nothing was changed.
            Unfinished: A file was edited by somebody else since; it was left alone.
        """
        with self._shelf.locked(self._wait_s):
            record = self._known(tx)
            self._check_on_top(record)
            status = self._undo(record)
            if status.state != WORDS[DONE]:
                raise Unfinished("; ".join(status.notes))
            return status

    def recover(self, keep: Sequence[str] = ()) -> list[Status]:
        """Undo whatever is neither kept nor reverted, newest first; those named in ``keep`` become kept instead."""
        if not self._shelf.exists():
            return []
        answers: list[Status] = []
        with self._shelf.locked(self._wait_s):
            self._shelf.sweep()
            for record in reversed(self._shelf.records()):
                if record.state == DONE:
                    self._shelf.forget(record)
                elif record.state == COMMIT and record.id in keep:
                    answers.append(self._status(self._shelf.step(record, KEEP)))
                elif record.state != KEEP:
                    answers.append(self._undo(record))
        return answers

    def transactions(self) -> list[Status]:
        """All transactions that are not reverted, oldest first."""
        if not self._shelf.exists():
            return []
        with self._shelf.locked(self._wait_s):
            return [self._status(record) for record in self._shelf.records() if record.state != DONE]

    def _known(self, tx: str) -> Record:
        record = self._shelf.find(tx)
        if record is None:
            raise Refused(f"there is no transaction {tx}")
        return record

    def _check_finished(self) -> None:
        for record in self._shelf.records():
            if record.state not in WORDS:
                raise Refused(f"transaction {record.id} is unfinished; recover first")

    def _check_on_top(self, record: Record) -> None:
        """Refuse to revert what a later transaction stands on: its files would be taken for somebody else's edits."""
        if record.state == DONE:
            return
        mine = {entry.path for entry in self._shelf.intent(record).entries if entry.is_file}
        for other in self._shelf.records():
            if other.seq > record.seq and other.state != DONE:
                theirs = {entry.path for entry in self._shelf.intent(other).entries if entry.is_file}
                if mine & theirs:
                    raise Refused(f"transaction {other.id} changed {min(mine & theirs)} later; revert it first")

    def _carry_out(self, tx: str, plan: Plan) -> Status:
        """Write the intent down and carry it out; whatever goes wrong, put everything back."""
        try:
            record = self._shelf.begin(tx, plan)
            self._stage(plan)
            record = self._shelf.step(record, SWAP)
            self._swap(plan)
            record = self._shelf.step(record, COMMIT)
            return self._status(record)
        except BaseException as error:
            notes = self._roll_back(tx, error)
            if isinstance(error, OSError):
                raise Refused("; ".join((describe_error(error), *notes))) from error
            if isinstance(error, JournalError):
                raise type(error)("; ".join((str(error), *notes))) from error
            raise

    def _roll_back(self, tx: str, error: BaseException) -> tuple[str, ...]:
        try:
            record = self._shelf.find(tx)
            if record is None:
                self._shelf.sweep()
                return ()
            status = self._undo(record)
        except OSError as second:
            raise Unfinished(f"{error}; putting things back failed too: {describe_error(second)}") from error
        if status.state != WORDS[DONE]:
            raise Unfinished("; ".join((str(error), *status.notes))) from error
        return status.notes

    def _stage(self, plan: Plan) -> None:
        """Write the new bytes beside their targets, so that nothing can fail for space any more."""
        fds: list[int] = []
        try:
            for entry in plan.entries:
                if entry.kind == "mkdir":
                    self._disk.mkdir(entry.path, 0o755)
                elif entry.path in plan.after:
                    meta = entry.meta or Meta(NEW_FILE_MODE, os.geteuid(), os.getegid(), 0, {})
                    meta = meta._replace(mtime_ns=entry.mtime_ns)
                    fds.append(write_new(self._disk, entry.hold, plan.after[entry.path], meta))
        except BaseException:
            for fd in fds:
                self._disk.close(fd)
            raise
        barrier(self._disk, fds, self._directories(plan))

    def _swap(self, plan: Plan) -> None:
        """Exchange all names, bytecode first: no interpreter may meet new source beside old bytecode."""
        for entry in plan.entries:
            if entry.kind == "park" and self._disk.status(entry.path) is not None:
                self._disk.rename(entry.path, entry.hold)
        for entry in plan.entries:
            if entry.is_file:
                self._swap_in(entry)
        barrier(self._disk, (), self._directories(plan))
        for entry in plan.entries:
            if entry.is_file and digest(self._disk, entry.path) != entry.post:
                raise Drift(f"{entry.path} was changed by somebody else while it was applied")

    def _swap_in(self, entry: Entry) -> None:
        if entry.pre is None:
            try:
                move(self._disk, entry.hold, entry.path)
            except FileExistsError as error:
                raise Drift(f"{entry.path} was made by somebody else meanwhile") from error
            return
        try:
            if entry.post is None:
                self._disk.rename(entry.path, entry.hold)
            else:
                exchange(self._disk, entry.hold, entry.path)
        except FileNotFoundError as error:
            raise Drift(f"{entry.path} was deleted by somebody else meanwhile") from error
        if digest(self._disk, entry.hold) != entry.pre:
            raise Drift(f"{entry.path} was edited by somebody else meanwhile")

    def _directories(self, plan: Plan) -> list[str]:
        """Directories in which the plan changes names."""
        return sorted({os.path.dirname(entry.path) for entry in plan.entries if entry.kind != "cache"})

    def _undo(self, record: Record) -> Status:
        """Bring a transaction's files back, as far as nobody else's work is in the way."""
        if record.state == DONE:
            return self._status(record)
        try:
            undo = Undo(
                self._disk, self._shelf.intent(record).entries, lambda number: self._shelf.pre_image(record, number)
            )
            if record.state == INTENT:
                undo.drop_staging()
            else:
                if record.state in (COMMIT, KEEP):
                    record = self._shelf.step(record, REVERT)
                undo.put_back()
            if undo.conflicts:
                return self._status(record, (*undo.conflicts, *undo.notes))
            record = self._shelf.step(record, DONE)
            self._shelf.forget(record)
            return self._status(record, tuple(undo.notes))
        except (OSError, JournalError) as error:
            why = describe_error(error) if isinstance(error, OSError) else str(error)
            state = WORDS[DONE] if record.state == DONE else UNFINISHED
            return Status(record.id, state, {}, (why,))

    def _status(self, record: Record, notes: tuple[str, ...] = ()) -> Status:
        try:
            asked = self._shelf.intent(record).asked
        except Unfinished as error:
            state = WORDS[DONE] if record.state == DONE else UNFINISHED
            return Status(record.id, state, {}, (*notes, str(error)))
        return Status(record.id, word(record), {name: digest(self._disk, path) for name, path in asked.items()}, notes)


def word(record: Record) -> str:
    """State of a transaction in the words of its users."""
    return WORDS.get(record.state or "", UNFINISHED)


def describe_error(error: OSError) -> str:
    """What the system said, and about what."""
    what = error.strerror or str(error)
    return f"{os.fsdecode(error.filename)}: {what}" if error.filename else what
