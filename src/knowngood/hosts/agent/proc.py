"""What ``/proc`` says. Processes come and go while it is read, so every answer may be None or lack one.

Source: proc(5).
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1e6
GONE = "ZX"
EXIT_FIELD = 49
LISTEN = b"0A"
ROOT = "/proc"


class Stat(NamedTuple):
    """One line of ``/proc/PID/stat``.

    Attributes:
        pid: Process id.
        state: One letter; Z and X are dead.
        parent: Process id of the parent.
        session: Session id.
        cpu_s: CPU time used, in seconds.
        reaped_s: CPU time of the children it has waited for.
        start: Clock ticks since boot when it started; with ``pid`` it names a process for ever.
        wait_status: Of a zombie: how it ended, as ``waitpid(2)`` says it.
    """

    pid: int
    state: str
    parent: int
    session: int
    cpu_s: float
    reaped_s: float
    start: int
    wait_status: int = 0

    @property
    def lives(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.state not in GONE


def read_proc(*names: object) -> bytes:
    """Bytes of a file below ``/proc``; none if its process is gone or belongs to somebody else."""
    try:
        with open("/".join((str(ROOT), *map(str, names))), "rb") as file:
            return file.read()
    except OSError:
        return b""


def process_stat(pid: int) -> Stat | None:
    """A process, or None."""
    # The program's name may hold blanks and parentheses; the last parenthesis ends it.
    fields = read_proc(pid, "stat").rpartition(b")")[2].split()
    if not fields:
        return None
    used, reaped = int(fields[11]) + int(fields[12]), int(fields[13]) + int(fields[14])
    return Stat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_s=used * TICK_S,
        reaped_s=reaped * TICK_S,
        start=int(fields[19]),
        wait_status=int(fields[EXIT_FIELD]) if len(fields) > EXIT_FIELD else 0,
    )


def process_table() -> dict[int, Stat]:
    """All processes by id."""
    found = (process_stat(int(name)) for name in os.listdir(ROOT) if name.isdecimal())
    return {one.pid: one for one in found if one is not None}


def own_name() -> tuple[int, int]:
    """Process id and start time of this process."""
    me = process_stat(os.getpid())
    return os.getpid(), me.start if me else 0


def is_alive(pid: int, start: int) -> bool:
    """Tell whether a process lives, and no other that got its id meanwhile."""
    found = process_stat(pid)
    return found is not None and found.start == start and found.lives


def boot_id() -> str:
    """Names this boot of the machine: process ids and start times mean nothing in another one."""
    return read_proc("sys/kernel/random/boot_id").decode().strip()


def environment_of(pid: int) -> dict[str, str]:
    """Environment that a process was started with; empty if it has overwritten it, as setproctitle(3) does."""
    block = read_proc(pid, "environ")
    if block.startswith(b"\0"):
        return {}
    pairs = (os.fsdecode(pair).partition("=") for pair in block.split(b"\0") if pair)
    return {name: value for name, _, value in pairs}


def arguments_of(pid: int) -> list[str]:
    """Arguments of a process."""
    return [os.fsdecode(word) for word in read_proc(pid, "cmdline").split(b"\0")[:-1]]


def rss_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    fields = read_proc(pid, "statm").split()
    return int(fields[1]) * PAGE / MB if fields else 0.0


def busy_s() -> float:
    """CPU time that the machine has spent on anything since boot, stolen time included, idle and waiting not."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, read_proc("stat").split(None, 9)[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_S


def listening_ports(pids: Iterable[int]) -> list[int]:
    """TCP ports that any of these processes listens on, in order."""
    sockets: set[bytes] = set()
    listening: dict[bytes, int] = {}
    for pid in pids:
        sockets |= socket_inodes(pid)
        # A process may live in a network namespace of its own, so its own view is asked.
        for family in ("tcp", "tcp6"):
            for line in read_proc(pid, "net", family).splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN:
                    listening[fields[9]] = int(fields[1].rpartition(b":")[2], 16)
    return sorted({port for inode, port in listening.items() if inode in sockets})


def socket_inodes(pid: int) -> set[bytes]:
    """Inodes of the sockets that a process has open."""
    found: set[bytes] = set()
    folder = f"{ROOT}/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                target = os.readlink(f"{folder}/{name}").encode()
                if target.startswith(b"socket:["):
                    found.add(target[len(b"socket:[") : -1])
    return found
