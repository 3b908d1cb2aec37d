"""A server that runs on this machine: asked, measured, and ended with everything that descends from it."""

import errno
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress

from knowngood.errors import RevertFailed
from knowngood.hosts import proc
from knowngood.hosts.family import Family
from knowngood.hosts.proc import Stat
from knowngood.hosts.runs import Launch
from knowngood.model.evidence import CpuReading
from knowngood.ports import Inside

UNKNOWN_STATUS = 255
LOOK_S = 0.02
KILL_S = 15.0


class LocalProcess:
    """A launch and all its processes.

    Args:
        launch: Its record.
        child: The leader if it is a child of this process; None for a stray.
        on_end: Called when no process of it is left.
    """

    def __init__(self, launch: Launch, child: "subprocess.Popen[bytes] | None", on_end: Callable[[], None]) -> None:
        self._launch = launch
        self._child = child
        self._on_end = on_end
        self._family = Family(launch.token, launch.leader)
        self._status: int | None = None
        self._most_cpu_s = 0.0

    @property
    def pid(self) -> int:
        """Process id of the leader; of a stray whose leader was not recorded, of its oldest process; 0 for none."""
        if self._launch.leader:
            return self._launch.leader[0]
        return min((member.start, member.pid) for member in self._family.living() or [NOBODY])[1]

    def poll(self) -> int | None:
        """Exit status of the leader (negative: signal), or None while it lives.

        The status of a stray, which is not this process's child, cannot be had: it is 255.
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
        if self._launch.leader is None:
            return None if self._family.living() else UNKNOWN_STATUS
        found = proc.stat(self._launch.leader[0])
        lives = found is not None and found.lives and found.start == self._launch.leader[1]
        return None if lives else UNKNOWN_STATUS

    def _reap(self) -> None:
        if self._child and self._status is not None and not self._family.living():
            self._child.wait()

    def stop(self, *, grace_s: float) -> None:
        """End every process of the launch: ask, wait up to ``grace_s`` seconds, kill; return when all are gone.

        Raises:
            RevertFailed: A process could not be ended.
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
            names = ", ".join(f"{member.pid} ({' '.join(proc.argv(member.pid)) or '?'})" for member in left)
            raise RevertFailed(
                f"processes of {self._launch.run} could not be ended: {names}",
                hint="A process in state D waits for the kernel or a device: see dmesg; a reboot ends it.",
                pids=[member.pid for member in left],
            )
        self.poll()
        self._on_end()

    def _wait(self, seconds: float) -> list[Stat]:
        """Wait until nobody is left, at most so long; return who is."""
        deadline = time.monotonic() + seconds
        while (left := self._family.living()) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
        return left

    def cpu(self) -> CpuReading:
        """Read the machine's CPU counters, and those of the launch, children that were waited for included."""
        members = self._family.members(proc.table())
        used = sum(member.cpu_s + member.reaped_s for member in members)
        # What an orphan used is gone with it; the counter must not run backwards for that.
        self._most_cpu_s = max(self._most_cpu_s, used)
        return CpuReading(at=time.monotonic(), busy_s=proc.busy_s(), server_s=self._most_cpu_s)

    def inspect(self) -> Inside:
        """Look into the live processes."""
        pids = tuple(member.pid for member in self._family.living())
        leader = self.pid if self.pid in pids else 0
        return Inside(
            argv=proc.argv(leader) or self._launch.argv,
            environ=proc.environ(leader),
            pids=pids,
            ports=proc.listening_ports(pids),
            rss_mb=sum(map(proc.rss_mb, pids)),
        )


NOBODY = Stat(pid=0, state="X", parent=0, session=0, cpu_s=0.0, reaped_s=0.0, start=0)


def send(member: Stat, number: signal.Signals) -> None:
    """Signal a process, and no other that got its id meanwhile. Whoever may not be signalled is found alive later."""
    with suppress(ProcessLookupError, PermissionError):
        handle = open_handle(member.pid)
        try:
            now = proc.stat(member.pid)
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
    """A descriptor that stands for a process for ever; None on kernels and sandboxes without ``pidfd_open``."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            return None
        raise
