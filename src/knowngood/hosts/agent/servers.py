"""A server that runs on this machine: asked, measured, and ended with everything that descends from it."""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from .failures import Failure
from .family import Family
from .proc import (
    TICK_S,
    Stat,
    arguments_of,
    busy_s,
    environment_of,
    listening_ports,
    process_stat,
    process_table,
    rss_mb,
)
from .surroundings import counts, look_around, packages_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from .accelerators import Accelerators
    from .runs import Launch

UNKNOWN_STATUS = 255
LOOK_S = 0.02
KILL_S = 15.0
TITLE = 100
NOBODY = Stat(pid=0, state="X", parent=0, session=0, cpu_s=0.0, reaped_s=0.0, start=0)


class Server:
    """A launch and all its processes.

    Args:
        launch: Its record.
        child: The leader if it is a child of this process; None for a stray.
        on_end: Called when no process of it is left.
    """

    def __init__(self, launch: Launch, child: subprocess.Popen[bytes] | None, on_end: Callable[[], None]) -> None:
        self.launch = launch
        self._child = child
        self._on_end = on_end
        self._family = Family(launch.token, launch.leader)
        self._status = launch.status
        self._most_cpu_s = 0.0

    @property
    def is_child(self) -> bool:
        """Whether this process started it, and so learns how it ends."""
        return self._child is not None

    @property
    def pid(self) -> int:
        """Process id of the leader; of a stray whose leader was not recorded, of its oldest process; 0 for none."""
        if self.launch.leader:
            return self.launch.leader[0]
        return min((member.start, member.pid) for member in self._family.living() or [NOBODY])[1]

    def lives(self) -> bool:
        """Tell whether any process of it is left."""
        return bool(self._family.living())

    def poll(self) -> int | None:
        """Exit status of the leader (negative: signal), or None while it lives.

        The status of a stray, which is not this process's child, cannot be had unless its parent wrote it down: it is
        255 then.
        """
        if self._status is None:
            self._status = self._look_at_child() if self._child else self._look_at_stray()
            self._reap()
        return self._status

    def _look_at_child(self) -> int | None:
        # The zombie stays until the family is gone: as long as it does, its numbers belong to nobody else.
        try:
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return UNKNOWN_STATUS
        if found is None:
            return None
        return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status

    def _look_at_stray(self) -> int | None:
        if self.launch.leader is None:
            return None if self._family.living() else UNKNOWN_STATUS
        pid, start = self.launch.leader
        found = process_stat(pid)
        if found is None or found.start != start:
            return UNKNOWN_STATUS
        if found.lives:
            return None
        # Its parent has not waited for it yet, so the kernel still tells.
        if os.WIFSIGNALED(found.wait_status):
            return -os.WTERMSIG(found.wait_status)
        return os.WEXITSTATUS(found.wait_status)

    def exit_status(self) -> int | None:
        """Exit status of the leader, while its zombie is left alone; None while it lives."""
        return self._look_at_child() if self._child and self._status is None else self._status

    def _reap(self) -> None:
        if self._child and self._status is not None and not self._family.living():
            self._child.wait()

    def stop(self, grace_s: float) -> None:
        """End every process of the launch: ask, wait up to ``grace_s`` seconds, kill; return when all are gone.

        Raises:
            Failure: A process could not be ended.
        """
        for member in self._family.living():
            send(member, signal.SIGTERM)
        left = self._wait(grace_s)
        deadline = time.monotonic() + KILL_S
        while left and time.monotonic() < deadline:
            for member in left:
                send(member, signal.SIGKILL)
            left = self._wait(LOOK_S)
        if left:
            names = ", ".join(f"{member.pid} ({' '.join(arguments_of(member.pid)) or '?'})" for member in left)
            raise Failure(
                "RevertFailed",
                f"processes of {self.launch.run} could not be ended: {names}",
                "A process in state D waits for the kernel or a device: see dmesg; a reboot ends it.",
                {"pids": [member.pid for member in left]},
            )
        self.poll()
        self._on_end()

    def _wait(self, seconds: float) -> list[Stat]:
        """Wait until nobody is left, at most so long; return who is."""
        deadline = time.monotonic() + seconds
        while True:
            left = self._family.living()
            if not left or time.monotonic() >= deadline:
                return left
            time.sleep(LOOK_S)

    def cpu(self) -> dict[str, Any]:
        """Read the machine's counters, and memory and CPU time of the launch, with children that were waited for."""
        members = self._family.members(process_table())
        used = sum(member.cpu_s + member.reaped_s for member in members)
        # What an orphan used is gone with it; the counter must not run backwards for that.
        self._most_cpu_s = max(self._most_cpu_s, used)
        return {
            "at": time.monotonic(),
            "busy_s": busy_s(),
            "server_s": self._most_cpu_s,
            "rss_mb": sum(rss_mb(member.pid) for member in members),
            "counts": counts(),
        }

    def surroundings(self, accelerators: Accelerators) -> dict[str, Any]:
        """Look at what goes on around the launch; dearer than ``cpu``, so not within a measured window."""
        table = process_table()
        return look_around(accelerators, {member.pid for member in self._family.members(table)}, table)

    def inspect(self) -> dict[str, Any]:
        """Look into the live processes."""
        living = self._family.living()
        pids = [member.pid for member in living]
        leader = self.pid if self.pid in pids else 0
        return {
            "argv": arguments_of(leader) or self.launch.argv,
            "environ": environment_of(leader),
            "pids": pids,
            "ports": listening_ports(pids),
            "rss_mb": sum(map(rss_mb, pids)),
            "packages": packages_of(pids),
            "processes": [look_into(member) for member in living],
        }


def look_into(member: Stat) -> dict[str, Any]:
    """One process: who it is, what it was started with."""
    return {
        "pid": member.pid,
        "parent": member.parent,
        "title": " ".join(arguments_of(member.pid)).strip()[:TITLE],
        "environ": environment_of(member.pid),
        "started_s": member.start * TICK_S,
    }


def send(member: Stat, number: signal.Signals) -> None:
    """Signal a process, and no other that got its id meanwhile. Whoever may not be signalled is found alive later."""
    with suppress(ProcessLookupError, PermissionError):
        handle = open_handle(member.pid)
        try:
            now = process_stat(member.pid)
            if now is None or now.start != member.start:
                return
            if handle is None:
                os.kill(member.pid, number)
            else:
                signal.pidfd_send_signal(handle, number)
        finally:
            if handle is not None:
                os.close(handle)


def open_handle(pid: int) -> int | None:
    """A descriptor that stands for a process for ever; None without ``pidfd_open`` (old kernels, sandboxes, Python)."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise
