"""The dead-man: a process on the machine that holds the lock, and brings everything back when the holder is gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .failures import Failure
from .lease import FREE, HELD, Book, busy, now_text, open_lock, read_note, take_lock, watcher_lives, write_note
from .proc import boot_id, is_alive, own_name, process_stat

if TYPE_CHECKING:
    from collections.abc import Callable

READY = b"watching\n"
WATCH_S = 0.25
# A watcher that reverts for a dead holder is waited for, this long.
PATIENCE_S = 60.0
END_S = 5.0


class Lease:
    """This process's side of a lease.

    Args:
        state: State directory.
        lock: The machine's lock file.
        install: Puts ``recover.py``, which the watcher runs from, into the state directory.
    """

    def __init__(self, state: str, lock: str, install: Callable[[], None]) -> None:
        self.book = Book(state)
        self._state = state
        self._lock = lock
        self._install = install
        self._fd = -1
        self._watcher: subprocess.Popen[bytes] | None = None

    def acquire(self, holder: dict[str, Any], ttl_s: float, *, tied: bool) -> int:
        """Take the machine.

        Args:
            holder: Who, for what, since when; others see it.
            ttl_s: Longest silence of the holder, in seconds, before the machine goes back to known-good by itself.
            tied: Whether the holder is this very process, so that its death is known at once.

        Returns:
            The fencing token.

        Raises:
            Failure: Somebody else holds it.
        """
        controller = list(own_name()) if tied else None
        fd = self._wait_for_lock()
        try:
            os.makedirs(self._state, mode=0o700, exist_ok=True)
            self._install()
            with self.book.gate():
                old = self.book.read()
                if old.get("state") == HELD:
                    self.book.lapse("its watcher was killed, or the machine restarted")
                token = int(old.get("token", 0)) + 1
                record = {
                    "token": token, "state": HELD, "ttl": ttl_s, "controller": controller, "boot": boot_id(),
                    "holder": holder,
                }  # fmt: skip
                self.book.beat()
                watcher = self._start_watcher(fd, token)
                write_note(fd, dict(holder, controller=controller))
                self.book.write(dict(record, watcher=watcher))
        except BaseException as error:
            os.close(fd)
            if isinstance(error, OSError):
                raise unusable(self._state, error) from error
            raise
        self._fd = fd
        return token

    def _wait_for_lock(self) -> int:
        """Take the lock; wait only for the watcher of a holder that is known to be dead.

        Raises:
            Failure: A holder that may be alive has it.
        """
        begun = time.monotonic()
        while True:
            fd = open_lock(self._lock)
            if take_lock(fd):
                return fd
            note = read_note(fd)
            os.close(fd)
            # A holder without a note has just come, or only looked.
            patience_s = 0.0 if note else WATCH_S * 4
            if time.monotonic() - begun > (PATIENCE_S if is_dead(note) else patience_s):
                raise busy(note)
            time.sleep(WATCH_S / 4)

    def _start_watcher(self, fd: int, token: int) -> list[int]:
        """Start the watcher, which inherits the lock as its standard input; return its process id and start time."""
        words = ["--state", self._state, "watch", str(token)]
        with open(os.path.join(self._state, "watch.log"), "ab") as log:
            watcher = subprocess.Popen(
                [sys.executable, "-IS", os.path.join(self._state, "recover.py"), *words],
                stdin=fd,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )
        said = watcher.stdout.readline() if watcher.stdout else b""
        if watcher.stdout:
            watcher.stdout.close()
        found = process_stat(watcher.pid)
        if said != READY or found is None:
            watcher.kill()
            watcher.wait()
            raise Failure(
                "HostError",
                "the process that watches over the lease could not be started",
                f"Its messages are in {self._state}/watch.log.",
            )
        if self._watcher is not None:
            self._watcher.wait()
        self._watcher = watcher
        return [found.pid, found.start]

    def renew(self, token: int) -> None:
        """Say that the holder lives; if its watcher does not, start another.

        Raises:
            Failure: The lease is lost.
        """
        with self.book.gate():
            self.book.check(token)
            self.book.beat()
            record = self.book.read()
            if not watcher_lives(record):
                if self._fd < 0:
                    self._fd = self._wait_for_lock()
                self.book.write(dict(record, watcher=self._start_watcher(self._fd, token)))

    def release(self, token: int) -> None:
        """Give the machine back. A server that was started meanwhile lives on.

        Raises:
            Failure: The lease was lost before.
        """
        try:
            with self.book.gate():
                self.book.check(token)
                self.book.write(dict(self.book.read(), state=FREE, ended=now_text(), why=""))
            if self._fd >= 0:
                write_note(self._fd, None)
        finally:
            self._end_watcher(token)
            self.let_go()

    def let_go(self) -> None:
        """Leave the lease to its watcher, for a process that its holder can no longer reach."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _end_watcher(self, token: int) -> None:
        """Have the lease's watcher look at the record, and wait until it is gone and the lock with it."""
        record = self.book.read()
        pid, start = record["watcher"] if record.get("token") == token and record.get("watcher") else (0, 0)
        with suppress(ProcessLookupError, PermissionError):
            if is_alive(pid, start):
                os.kill(pid, signal.SIGUSR1)
        deadline = time.monotonic() + END_S
        while is_alive(pid, start) and time.monotonic() < deadline:
            time.sleep(0.002)
        if self._watcher is not None:
            self._watcher.wait()
            self._watcher = None


def is_dead(note: dict[str, Any]) -> bool:
    """Tell whether the holder is a process of this machine that is gone: then its watcher is bringing things back."""
    controller = note.get("controller")
    return controller is not None and not is_alive(controller[0], controller[1])


def holder_now(lock: str) -> dict[str, Any] | None:
    """The note of whoever holds the machine now; None if nobody does. Changes nothing.

    While a watcher brings things back for a holder that is dead, it is waited for: nothing that could be said is true.
    """
    begun = time.monotonic()
    while os.path.lexists(lock):
        fd = open_lock(lock)
        try:
            if take_lock(fd):
                return None
            note = read_note(fd)
        finally:
            os.close(fd)
        if not is_dead(note) or time.monotonic() - begun > PATIENCE_S:
            return note
        time.sleep(WATCH_S / 4)
    return None


def watch(state: str, token: int) -> int:
    """Watch over a lease until it is given back, or lapse it; the lock is standard input.

    Args:
        state: State directory.
        token: The lease's fencing token.

    Returns:
        Exit status: 0 all is well, 1 not everything could be brought back.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    book = Book(state)
    os.write(1, READY)
    # Whoever started us may be gone before we are; nothing is said on standard output again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    with book.gate():
        pass  # the record is written behind it
    seen, heard = book.last_beat(), time.monotonic()
    while True:
        record = book.read()
        if record.get("token") != token or record.get("state") != HELD:
            return 0
        beat = book.last_beat()
        if beat != seen:
            seen, heard = beat, time.monotonic()
        why = vanished(record, time.monotonic() - heard)
        if why:
            with book.gate():
                # A request may have been under way: it counts as a sign of life.
                if book.last_beat() == seen and book.read().get("state") == HELD:
                    return 1 if book.lapse(why) else 0
        signal.sigtimedwait({signal.SIGUSR1}, min(WATCH_S, float(record["ttl"]) / 8))


def vanished(record: dict[str, Any], silence_s: float) -> str:
    """Why a holder counts as gone; empty if it does not."""
    if is_dead(record):
        return f"process {record['controller'][0]}, which held it, is gone"
    if silence_s > float(record["ttl"]):
        return f"nothing was heard of its holder for {float(record['ttl']):g} s"
    return ""


def unusable(state: str, error: OSError) -> Failure:
    """The failure for a state directory that cannot be used."""
    return Failure(
        "HostError",
        f"{error.filename or state} cannot be written: {error.strerror}",
        "The log and the state directory must be writable, with space left.",
    )
