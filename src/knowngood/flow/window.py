"""What the host shows at the edges of a measured window, and what a run gains from it."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from knowngood.model.evidence import CpuReading, RunRecord, Surroundings
from knowngood.ports import Process

EDGES = 2
COUNTED = ("swap_mb", "cpu_throttles", "oom_kills")
"""Counters whose rise within the window is told as it is."""
SHARES = {"steal_s": "steal_cores", "cpu_wait_s": "cpu_wait", "memory_wait_s": "memory_wait", "io_wait_s": "io_wait"}
"""Counters of time, told as a share of the window."""
SLOW_TIME = "gpu_slow_s"


@dataclass(slots=True)
class Window:
    """The host at the start and the end of a measured window.

    Counters are read at the edges themselves. The rest is dearer to ask for, so it is asked for before the load begins
    and once the window has closed, while clocks are still as they were under load.

    Attributes:
        process: The server.
        age: Seconds for which the server has been ready by now.
        is_here: Whether what we use is among the host's CPU time.
        has_client: Whether what the benchmark client uses is.
        edges: Host's counters, and our own CPU seconds, at start and end.
        around: What went on before the load, and as the window had closed.
        age_s: Seconds for which the server had been ready before the load.
    """

    process: Process
    age: Callable[[], float]
    is_here: bool = True
    has_client: bool = True
    edges: list[tuple[CpuReading, float]] = field(default_factory=list[tuple[CpuReading, float]])
    around: list[Surroundings] = field(default_factory=list[Surroundings])
    age_s: float = 0.0

    def open(self) -> None:
        """Look around before the load begins, and at how old the server is: warming up takes a slow one longer."""
        self.age_s = self.age()
        self.around.append(self.process.surroundings())

    def mark(self) -> None:
        """Read the counters now: once at the start of the window, once at its end."""
        own = os.times()
        self.edges.append((self.process.cpu(), own.user + own.system))
        if len(self.edges) == EDGES:
            self.around.append(self.process.surroundings())

    def settle(self, run: RunRecord) -> RunRecord:
        """Return the run with the host's figures filled in."""
        if len(self.edges) < EDGES:
            return run
        (first, own_first), (last, own_last) = self.edges[0], self.edges[-1]
        seconds = max(last.at - first.at, 1e-9)
        server_s = last.server_s - first.server_s
        ours_s = own_last - own_first if self.is_here else 0.0
        ours_s += run.metrics.get("client_cpu_s", 0.0) if self.has_client else 0.0
        foreign = max(0.0, (last.busy_s - first.busy_s - server_s - ours_s) / seconds)
        per_request = server_s / run.requests if run.requests else 0.0
        return msgspec.structs.replace(
            run,
            metrics={
                **run.metrics,
                **risen(first.counts, last.counts, seconds),
                **self.levels(),
                "server_cpu_s_per_request": per_request,
                "foreign_cores": foreign,
                "server_age_s": self.age_s,
            },
            foreign_cores=foreign,
            server_cpu_s=server_s,
            notes=tuple(dict.fromkeys(note for one in self.around for note in (*one.slowed, *one.strangers))),
            rss_mb=first.rss_mb,
            gpu_mb=max((one.gpu_mb for one in self.around if one.gpu_mb is not None), default=None),
        )

    def levels(self) -> dict[str, float]:
        """Clocks, limits, temperatures as the window closed; what is wrong with accelerators, if there are any."""
        first, last = self.around[0], self.around[-1]
        found = {name: value for name, value in last.levels.items() if name != SLOW_TIME}
        if last.accelerators:
            lost = last.levels.get(SLOW_TIME, 0.0) - first.levels.get(SLOW_TIME, 0.0)
            found["gpu_slowed"] = float(max(len(last.slowed), lost > 0))
            found["foreign_processes"] = float(len({*first.strangers, *last.strangers}))
        return found


def risen(first: dict[str, float], last: dict[str, float], seconds: float) -> dict[str, float]:
    """What counters counted between two readings; a counter that either lacks is left out."""
    rise = {name: max(0.0, last[name] - first[name]) for name in last if name in first}
    found = {name: rise[name] for name in COUNTED if name in rise}
    return found | {share: rise[name] / seconds for name, share in SHARES.items() if name in rise}
