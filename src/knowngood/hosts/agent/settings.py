"""Undo of values that the kernel or a device holds: sysctl, sysfs, anything with a command to read and one to set it.

``settings.json`` in the state directory holds all sets, oldest first, and is replaced durably before each step::

    intent   values read, nothing written yet, or writing was cut off
    applied  all values set and read back
    kept     part of the known-good state
    revert   being put back

A value is put back only where it still reads what was set. It does not outlive its boot: after a reboot nothing is
written, the set is reverted already; what was kept is set again by ``recover``.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any, NamedTuple

from .files import Disk
from .journal import UNFINISHED, Status
from .plan import JournalError, Refused, Unfinished
from .shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BOOK = "settings.json"
BOOK_VERSION = 1
BOOT_ID = "/proc/sys/kernel/random/boot_id"
KERNEL = ("/proc/sys/", "/sys/")
COMMAND_S = 60
WRITING, APPLIED, KEPT, REVERTING, REVERTED, OVER = "intent", "applied", "kept", "revert", "reverted", "lapsed"
GONE_WITH_BOOT = "a reboot has undone it already; nothing was written"


class Knob(NamedTuple):
    """A setting: its name, its file or else its two commands, and the value to set."""

    name: str
    path: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    value: str


class Turned(NamedTuple):
    """A setting of a set: what it read before (None: not read yet) and what it reads once set."""

    knob: Knob
    pre: str
    post: str


class Page(NamedTuple):
    """A set of settings: id, state, boot that it was set in, entries."""

    id: str
    state: str
    boot: str
    entries: tuple[Turned, ...]


class SettingsBook:
    """The journal of settings of one state directory.

    Args:
        root: State directory; made on the first ``apply``.
        scripts: Recovery scripts left there before anything is changed: name to bytes.
        boot: Id of the boot; None asks the kernel.
        wait_s: How long to wait for somebody else's request to end, in seconds.
    """

    def __init__(
        self, root: str, scripts: Mapping[str, bytes] | None = None, boot: str | None = None, wait_s: float = 10.0
    ) -> None:
        self._disk = Disk()
        self._shelf = Shelf(root, self._disk)
        self._scripts: Mapping[str, bytes] = {} if scripts is None else scripts
        self._boot = boot
        self._wait_s = wait_s

    def apply(self, tx: str, knobs: Sequence[Knob]) -> Status:
        """Set a set of values, all or none; asked again with the same id, answer with its state.

        Raises:
            Refused: One cannot be written, put back or read back; everything is as before.
            Unfinished: That failed, and not everything could be put back.
        """
        self._shelf.check_id(tx)
        with self._shelf.locked(self._wait_s):
            self._shelf.prepare(self._scripts)
            pages = self._pages()
            found = [page for page in pages if page.id == tx]
            if found:
                return self._status(found[0])
            cut = [page.id for page in pages if page.state in (WRITING, REVERTING)]
            if cut:
                raise Refused(f"settings {cut[0]} are unfinished; recover first")
            entries = tuple(Turned(knob, read_knob(knob), squeeze(knob.value)) for knob in knobs)
            page = Page(tx, WRITING, self._now(), entries)
            self._put(page)
            try:
                # The undo is rehearsed first: a value that cannot be written back is found out while it still stands.
                for entry in entries:
                    turn(entry.knob, entry.pre)
                for entry in entries:
                    turn(entry.knob, entry.post)
            except BaseException as error:
                notes = self._undo(page)
                if any(one.id == tx for one in self._pages()):
                    raise Unfinished("; ".join((str(error), *notes))) from error
                raise
            return self._status(self._put(page._replace(state=APPLIED)))

    def revert(self, tx: str) -> Status:
        """Put the values of a set back.

        Raises:
            Refused: There is no such set, or a later one stands on it; nothing was changed.
            Unfinished: Somebody else has set one since; it was left alone.
        """
        with self._shelf.locked(self._wait_s):
            page = self._known(tx)
            later = self._pages()[[one.id for one in self._pages()].index(tx) + 1 :]
            names = {entry.knob.name for entry in page.entries}
            for other in later:
                if names & {entry.knob.name for entry in other.entries}:
                    raise Refused(f"settings {other.id} stand on {tx}; revert them first")
            notes = self._undo(page)
            if any(one.id == tx for one in self._pages()):
                raise Unfinished("; ".join(notes))
            return Status(tx, REVERTED, {}, notes)

    def keep(self, tx: str) -> Status:
        """Make an applied set part of the known-good state.

        Raises:
            Refused: It is not applied.
        """
        with self._shelf.locked(self._wait_s):
            page = self._known(tx)
            if page.state == APPLIED:
                page = self._put(page._replace(state=KEPT))
            if page.state != KEPT:
                raise Refused(f"settings {tx} are {self._word(page)}, so they cannot be kept")
            return self._status(page)

    def recover(self, keep: Sequence[str] = ()) -> list[Status]:
        """Undo whatever is neither kept nor reverted, newest first; set again what was kept and undone by a reboot."""
        if not self._pages():
            return []
        answers: list[Status] = []
        with self._shelf.locked(self._wait_s):
            for page in reversed(self._pages()):
                if page.state == APPLIED and page.id in keep:
                    answers.append(self._status(self._put(page._replace(state=KEPT))))
                elif page.state != KEPT:
                    notes = self._undo(page)
                    left = any(one.id == page.id for one in self._pages())
                    answers.append(Status(page.id, UNFINISHED if left else REVERTED, {}, notes))
            answers += [self._renew(page) for page in self._pages() if self._word(page) == OVER]
        return answers

    def transactions(self) -> list[Status]:
        """All sets that are not reverted, oldest first."""
        return [self._status(page) for page in self._pages()]

    def _undo(self, page: Page) -> tuple[str, ...]:
        """Put values back, last first, as far as nobody else has set them; the page goes when none is left."""
        if page.boot != self._now():
            self._drop(page)
            return (GONE_WITH_BOOT,)
        if page.state in (APPLIED, KEPT):
            page = self._put(page._replace(state=REVERTING))
        conflicts: list[str] = []
        for entry in reversed(page.entries):
            try:
                value = read_knob(entry.knob)
                if value == entry.post != entry.pre:
                    turn(entry.knob, entry.pre)
                elif value != entry.pre:
                    conflicts.append(
                        f"{entry.knob.name} reads {value}, neither {entry.pre} as before nor {entry.post} as set: "
                        "somebody else has set it; it was left alone"
                    )
            except JournalError as error:
                conflicts.append(str(error))
        if not conflicts:
            self._drop(page)
        return tuple(conflicts)

    def _renew(self, page: Page) -> Status:
        """Set again what was kept before a reboot; what stands there now is what a later undo puts back."""
        try:
            now = [read_knob(entry.knob) for entry in page.entries]
            entries = tuple(
                entry if value == entry.post else entry._replace(pre=value)
                for entry, value in zip(page.entries, now)  # noqa: B905 - Python 3.8
            )
            page = self._put(page._replace(entries=entries))
            for entry in entries:
                turn(entry.knob, entry.post)
        except JournalError as error:
            return self._status(page, (str(error),))
        return self._status(self._put(page._replace(boot=self._now())), ("set again after a reboot",))

    def _status(self, page: Page, notes: tuple[str, ...] = ()) -> Status:
        values: dict[str, str | None] = {}
        for entry in page.entries:
            try:
                values[entry.knob.name] = read_knob(entry.knob)
            except JournalError:
                values[entry.knob.name] = None
        return Status(page.id, self._word(page), values, notes)

    def _word(self, page: Page) -> str:
        if page.state == KEPT and page.boot != self._now():
            return OVER
        return page.state if page.state in (APPLIED, KEPT) else UNFINISHED

    def _known(self, tx: str) -> Page:
        for page in self._pages():
            if page.id == tx:
                return page
        raise Refused(f"there are no settings {tx}")

    def _now(self) -> str:
        if self._boot is None:
            found = self._disk.read(BOOT_ID)
            self._boot = found[0].decode().strip() if found else ""
        return self._boot

    def _pages(self) -> list[Page]:
        found = self._disk.read(os.path.join(self._shelf.root, BOOK))
        if found is None:
            return []
        try:
            book: dict[str, Any] = json.loads(found[0])
            if book["v"] > BOOK_VERSION:
                raise Refused(f"{BOOK} has version {book['v']}, this one reads {BOOK_VERSION}: use a newer knowngood")
            return [load_page(page) for page in book["sets"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Unfinished(f"{BOOK} in {self._shelf.root} is damaged: {error}") from error

    def _put(self, page: Page) -> Page:
        """Write a page down, durably."""
        pages = self._pages()
        at = [one.id for one in pages].index(page.id) if any(one.id == page.id for one in pages) else len(pages)
        self._write([*pages[:at], page, *pages[at + 1 :]])
        return page

    def _drop(self, page: Page) -> None:
        self._write([one for one in self._pages() if one.id != page.id])

    def _write(self, pages: list[Page]) -> None:
        sets = [
            {
                "id": one.id,
                "state": one.state,
                "boot": one.boot,
                "entries": [[*e.knob, e.pre, e.post] for e in one.entries],
            }
            for one in pages
        ]
        self._shelf.replace(BOOK, json.dumps({"v": BOOK_VERSION, "sets": sets}, indent=1).encode())


def load_page(page: Mapping[str, Any]) -> Page:
    """A page out of the book's JSON."""
    entries = tuple(
        Turned(Knob(name, path, tuple(read), tuple(write), value), pre, post)
        for name, path, read, write, value, pre, post in page["entries"]
    )
    return Page(page["id"], page["state"], page["boot"], entries)


def squeeze(text: str) -> str:
    """A value as it is compared: blanks are one, and of ``always [madvise] never`` the choice in force."""
    words = text.split()
    chosen = [word[1:-1] for word in words if word.startswith("[") and word.endswith("]")]
    return chosen[0] if len(chosen) == 1 and len(words) > 1 else " ".join(words)


def check_knob(knob: Knob) -> str:
    """Read a setting's value, and make sure that it could be written.

    Raises:
        Refused: It cannot be read, could not be written, or is nothing that the kernel holds.
    """
    if knob.path and not os.path.realpath(knob.path).startswith(KERNEL):
        raise Refused(f"{knob.name} is nothing that the kernel holds: a file is a change of kind edit, patch or file")
    value = read_knob(knob)
    if knob.path:
        try:
            os.close(os.open(knob.path, os.O_RDWR | os.O_CLOEXEC))
        except OSError as error:
            raise Refused(f"{knob.name} cannot be written: {error.strerror}") from error
    return value


def read_knob(knob: Knob) -> str:
    """What a setting is now.

    Raises:
        Refused: It cannot be read.
    """
    if not knob.path:
        return squeeze(run_words(knob.read, knob.name))
    try:
        with open(knob.path, "rb") as file:
            return squeeze(file.read().decode("utf-8", "replace"))
    except OSError as error:
        raise Refused(f"{knob.name} cannot be read: {error.strerror}") from error


def turn(knob: Knob, value: str) -> None:
    """Set a value and read it back.

    Raises:
        Refused: It cannot be written, or reads otherwise afterwards.
    """
    if knob.path:
        try:
            # One write without a buffer: the kernel takes a value whole or not at all.
            with open(knob.path, "r+b", buffering=0) as file:
                file.write(value.encode() + b"\n")
        except OSError as error:
            raise Refused(f"{knob.name} cannot be set to {value}: {error.strerror}") from error
    else:
        run_words([word.replace("{value}", value) for word in knob.write], knob.name)
    seen = read_knob(knob)
    if seen != value:
        raise Refused(f"{knob.name} was set to {value}, but reads {seen}")


def run_words(words: Sequence[str], name: str) -> str:
    """Output of a command.

    Raises:
        Refused: It cannot be run, fails, or does not end.
    """
    try:
        done = subprocess.run(
            list(words), stdin=subprocess.DEVNULL, capture_output=True, timeout=COMMAND_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Refused(f"{name}: {words[0]} cannot be run: {error}") from error
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise Refused(f"{name}: {words[0]} failed with status {done.returncode}: {said[-1] if said else 'no message'}")
    return done.stdout.decode("utf-8", "replace")
