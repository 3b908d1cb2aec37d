"""What ``/proc`` says. Processes come and go while it is read, so every answer may be None or lack one.

Source: proc(5).
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
MB = 1e6
GONE = "ZX"
LISTEN = b"0A"
ROOT = Path("/proc")


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
    """

    pid: int
    state: str
    parent: int
    session: int
    cpu_s: float
    reaped_s: float
    start: int

    @property
    def lives(self) -> bool:
        """Whether it still runs; a zombie does not."""
        return self.state not in GONE


def read(path: Path) -> bytes:
    """Bytes of a file below ``/proc``; none if its process is gone or belongs to somebody else."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def stat(pid: int) -> Stat | None:
    """A process, or None."""
    # The program's name may hold blanks and parentheses; the last parenthesis ends it.
    fields = read(ROOT / str(pid) / "stat").rpartition(b")")[2].split()
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
    )


def table() -> dict[int, Stat]:
    """All processes by id."""
    found = (stat(int(name)) for name in os.listdir(ROOT) if name.isdecimal())  # noqa: PTH208 - names, no paths
    return {one.pid: one for one in found if one is not None}


def boot_id() -> str:
    """Names this boot of the machine: process ids and start times mean nothing in another one."""
    return read(ROOT / "sys/kernel/random/boot_id").decode().strip()


def environ(pid: int) -> dict[str, str]:
    """Environment that a process was started with."""
    pairs = (os.fsdecode(pair).partition("=") for pair in read(ROOT / str(pid) / "environ").split(b"\0") if pair)
    return {name: value for name, _, value in pairs}


def argv(pid: int) -> tuple[str, ...]:
    """Arguments of a process."""
    words = read(ROOT / str(pid) / "cmdline").split(b"\0")
    return tuple(os.fsdecode(word) for word in words[:-1])


def rss_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    fields = read(ROOT / str(pid) / "statm").split()
    return int(fields[1]) * PAGE / MB if fields else 0.0


def busy_s() -> float:
    """CPU time that the machine has spent on anything since boot, stolen time included, idle and waiting not."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, read(ROOT / "stat").split(None, 9)[1:9])
    return (user + nice + system + irq + softirq + steal) * TICK_S


def listening_ports(pids: Iterable[int]) -> tuple[int, ...]:
    """TCP ports that any of these processes listens on, in order."""
    sockets: set[bytes] = set()
    listening: dict[bytes, int] = {}
    for pid in pids:
        sockets |= socket_inodes(pid)
        # A process may live in a network namespace of its own, so its own view is asked.
        for table_name in ("tcp", "tcp6"):
            for line in read(ROOT / str(pid) / "net" / table_name).splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN:
                    listening[fields[9]] = int(fields[1].rpartition(b":")[2], 16)
    return tuple(sorted({port for inode, port in listening.items() if inode in sockets}))


def socket_inodes(pid: int) -> set[bytes]:
    """Inodes of the sockets that a process has open."""
    found: set[bytes] = set()
    folder = ROOT / str(pid) / "fd"
    with suppress(OSError):
        for name in os.listdir(folder):  # noqa: PTH208 - names, no paths
            with suppress(OSError):
                target = os.readlink(folder / name).encode()  # noqa: PTH115 - a socket's name is no path
                if target.startswith(b"socket:["):
                    found.add(target[len(b"socket:[") : -1])
    return found
