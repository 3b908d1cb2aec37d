"""Lets the generator run when its bytes arrive, without letting it starve the machine. Standard library only."""

import contextlib
import gc
import os
import resource
import signal
from typing import Final, Literal

Priority = Literal["realtime", "nice", "normal"]

# A real-time process that never waits would take its core from everybody. One that used this much CPU without
# waiting is no longer a client that answers events; it is made an ordinary process.
_LONGEST_BURST_US: Final = 200_000
# Above a server that somebody put on the lowest real-time priority, below the kernel's own threads, which are at 50.
_LEVEL: Final = 20


def raise_priority() -> Priority:
    """Take the best scheduling that this user may have, and switch the garbage collector off."""
    gc.freeze()
    gc.disable()
    try:
        # Guard first: the kernel sends SIGXCPU when the burst is too long (setrlimit(2), RLIMIT_RTTIME).
        signal.signal(signal.SIGXCPU, lambda _signal, _frame: _become_ordinary())
        _, hard = resource.getrlimit(resource.RLIMIT_RTTIME)
        resource.setrlimit(resource.RLIMIT_RTTIME, (_LONGEST_BURST_US, hard))
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_LEVEL))
    except (OSError, ValueError):
        return _be_nice()
    return "realtime"


def current_priority() -> Priority:
    """What the process runs with now."""
    if os.sched_getscheduler(0) == os.SCHED_RR:
        return "realtime"
    return "nice" if os.getpriority(os.PRIO_PROCESS, 0) < 0 else "normal"


def raise_file_limit() -> None:
    """Allow as many connections as this user may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _become_ordinary() -> None:
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    _be_nice()


def _be_nice() -> Priority:
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except OSError:
        return "normal"
    return "nice"
