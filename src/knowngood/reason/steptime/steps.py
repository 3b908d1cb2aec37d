"""Where steps begin and end in a profile: by annotation, by graph launches, by counting collectives, or not at all."""

from dataclasses import dataclass

import numpy as np

from knowngood.model.profile import Lane, Timeline

ALIKE = 0.9
LONGEST_PERIOD = 16


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of whole steps.

    Attributes:
        start_us: Begin.
        end_us: End.
        steps: Steps in it, at least 1.
        by: How they were told apart.
    """

    start_us: float
    end_us: float
    steps: int
    by: str

    @property
    def length_us(self) -> float:
        """Length, in microseconds."""
        return self.end_us - self.start_us


def find_window(timeline: Timeline, lane: Lane, per_step: int | None) -> Window | None:
    """Find whole steps of a lane.

    Args:
        timeline: The profile.
        lane: Device or thread.
        per_step: All-reduces of a forward, if that is known.

    Returns:
        None if the lane is empty.
    """
    if not len(lane.starts):
        return None
    return by_marks(timeline) or by_graphs(timeline, lane) or by_collectives(timeline, lane, per_step) or whole(lane)


def by_marks(timeline: Timeline) -> Window | None:
    """Steps that the profiler annotated."""
    marks = sorted(timeline.marks)
    if not marks:
        return None
    return Window(marks[0][0], max(end for _, end in marks), len(marks), "the profiler's own step marks")


def by_graphs(timeline: Timeline, lane: Lane) -> Window | None:
    """Steps that are launched as graphs: a round of speculation launches several, in the same order each time."""
    launches = np.frombuffer(lane.launches, dtype=np.uint64)
    starts = np.frombuffer(lane.starts, dtype=np.float64)
    begins: list[float] = []
    sizes: list[int] = []
    order = np.argsort(launches, kind="stable")
    ordered = launches[order]
    for launch in timeline.graphs:
        low, high = np.searchsorted(ordered, launch, side="left"), np.searchsorted(ordered, launch, side="right")
        if high > low:
            begins.append(float(np.min(starts[order[low:high]])))
            sizes.append(int(high - low))
    period = period_of(sizes)
    edges = begins[::period] if period else []
    if len(edges) < 2:  # noqa: PLR2004  (one step's end is the next one's begin)
        return None
    graphs = "graph launches" if period == 1 else f"graph launches, {period} a step"
    return Window(edges[0], edges[-1], len(edges) - 1, graphs)


def period_of(sizes: list[int]) -> int:
    """Shortest period after which the launches repeat; 0 if they do not."""
    for period in range(1, min(LONGEST_PERIOD, len(sizes) // 2) + 1):
        alike = sum(one == other for one, other in zip(sizes, sizes[period:], strict=False))
        if alike >= ALIKE * (len(sizes) - period):
            return period
    return 0


def by_collectives(timeline: Timeline, lane: Lane, per_step: int | None) -> Window | None:
    """Steps by their number of all-reduces; those of embedding and drafts make this a little wrong."""
    if not per_step:
        return None
    wanted = np.array([category == "comm.allreduce" for category in timeline.categories], dtype=bool)
    names = np.frombuffer(lane.names, dtype=np.dtype(f"u{lane.names.itemsize}")).astype(np.int64)
    begins = np.sort(np.frombuffer(lane.starts, dtype=np.float64)[wanted[names]])
    edges = begins[::per_step]
    if len(edges) < 2:  # noqa: PLR2004  (one step's end is the next one's begin)
        return None
    return Window(float(edges[0]), float(edges[-1]), len(edges) - 1, f"every {per_step} all-reduces")


def whole(lane: Lane) -> Window:
    """The whole lane as one step."""
    starts = np.frombuffer(lane.starts, dtype=np.float64)
    ends = starts + np.frombuffer(lane.durations, dtype=np.float64)
    return Window(float(np.min(starts)), float(np.max(ends)), 1, "nothing: the whole profile counts as one step")
