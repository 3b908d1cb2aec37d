"""Intervals of kernels to milliseconds a step and category. What is credited and what is idle add up to the step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from knowngood.model.profile import Collective, KernelTotals, Lane, Part, StepProfile, Timeline
from knowngood.reason.steptime.steps import Window, find_window

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

ASKED_FOR = "comm.call"
"""The host asks for a collective; that is not the collective."""


@dataclass(frozen=True, slots=True)
class Credit:
    """What one rank did in its window.

    Attributes:
        window: The window, and its steps.
        us: Category to microseconds.
        counts: Category to number of events.
        covered_us: Microseconds in which anything ran.
        overlap_us: Microseconds that ran beside something that is counted already.
        collectives: Category to durations in order of start, in microseconds.
    """

    window: Window
    us: dict[str, float]
    counts: dict[str, int]
    covered_us: float
    overlap_us: float
    collectives: dict[str, Floats]


def attribute(timelines: Sequence[Timeline], *, per_step: int | None = None) -> StepProfile | None:
    """Average a step over all ranks.

    Args:
        timelines: One a file; their ranks are told apart.
        per_step: All-reduces of a forward, which tells steps apart where nothing else does.

    Returns:
        None if nothing ran in any of them.
    """
    ranks = [one for line in timelines for one in credit_ranks(line, per_step)]
    if not ranks:
        return None
    steps = sum(one.window.steps for one in ranks)
    categories = {category for one in ranks for category in one.us}
    parts = [
        Part(
            category=category,
            ms=sum(one.us.get(category, 0.0) for one in ranks) / steps / 1e3,
            count=sum(one.counts.get(category, 0) for one in ranks) / steps,
        )
        for category in categories
    ]
    length_us = sum(one.window.length_us for one in ranks)
    collectives, unmatched = match(ranks)
    return StepProfile(
        source=", ".join(line.source for line in timelines[:2]) + (", …" if len(timelines) > 2 else ""),  # noqa: PLR2004
        ranks=len(ranks),
        steps=min(one.window.steps for one in ranks),
        bounded_by=ranks[0].window.by,
        step_ms=length_us / steps / 1e3,
        parts=tuple(sorted(parts, key=lambda part: -part.ms)),
        idle_ms=(length_us - sum(one.covered_us for one in ranks)) / steps / 1e3,
        overlap_ms=sum(one.overlap_us for one in ranks) / steps / 1e3,
        collectives=collectives,
        notes=(*dict.fromkeys(note for line in timelines for note in line.notes), *unmatched),
    )


def credit_ranks(timeline: Timeline, per_step: int | None) -> Iterable[Credit]:
    """Every rank of a timeline: its devices, or else the busiest thread with the collectives of the others."""
    devices = [lane for lane in timeline.lanes if not lane.nested and len(lane.starts)]
    for lane in devices:
        window = find_window(timeline, lane, per_step)
        if window is not None:
            yield credit_device(timeline, lane, window)
    if devices:
        return
    threads = [lane for lane in timeline.lanes if lane.nested and len(lane.starts)]
    for rank in sorted({lane.rank for lane in threads}):
        mine = [lane for lane in threads if lane.rank == rank]
        busiest = max(mine, key=lambda lane: sum(lane.durations))
        window = find_window(timeline, busiest, per_step)
        if window is not None:
            yield credit_threads(timeline, busiest, [lane for lane in mine if lane is not busiest], window)


def credit_device(timeline: Timeline, lane: Lane, window: Window) -> Credit:
    """Credit kernels of a device: a moment belongs to the one that began first; the others overlap."""
    starts, ends, names = clipped(lane, window)
    own = np.maximum(0.0, ends - np.maximum(starts, before(ends, window.start_us)))
    return credited(
        timeline, window, names, own, ends - starts, whole_overlap=float(np.sum(ends - starts) - np.sum(own))
    )


def credit_threads(timeline: Timeline, lane: Lane, others: Sequence[Lane], window: Window) -> Credit:
    """Credit operations of a thread, each with the time that none inside it has.

    A collective of another thread is credited where this thread does nothing that was recorded, or has only asked for a
    collective: it waits there.
    """
    starts, ends, names = clipped(lane, window)
    own = self_times(starts, ends)
    asked = np.array([timeline.categories[name] == ASKED_FOR for name in names], dtype=bool)
    busy = union(starts[~asked], ends[~asked])
    beside = [clipped(other, window, only="comm", categories=timeline.categories) for other in others]
    if not beside:
        return credited(timeline, window, names, own, ends - starts, whole_overlap=0.0)
    their_starts, their_ends, their_names = (np.concatenate(one) for one in zip(*beside, strict=True))
    order = np.argsort(their_starts, kind="stable")
    their_starts, their_ends, their_names = their_starts[order], their_ends[order], their_names[order]
    collective = union(their_starts, their_ends)
    own[asked] = np.minimum(own[asked], uncovered(*collective, starts[asked], ends[asked]))
    fresh = np.maximum(their_starts, before(their_ends, window.start_us))
    free = uncovered(*busy, fresh, np.maximum(fresh, their_ends))
    whole = their_ends - their_starts
    overlap = float(np.sum(whole) - np.sum(free))
    return added(
        credited(timeline, window, names, own, ends - starts, whole_overlap=0.0),
        credited(timeline, window, their_names, free, whole, whole_overlap=overlap),
    )


def before(ends: Floats, begin: float) -> Floats:
    """Latest end among the events before each; ``begin`` for the first."""
    return np.maximum.accumulate(np.concatenate(([begin], ends)))[:-1]


def clipped(
    lane: Lane, window: Window, *, only: str = "", categories: Sequence[str] = ()
) -> tuple[Floats, Floats, Ints]:
    """Events inside a window, cut at its edges, in order of start, and of two that start together the longer first.

    Args:
        lane: Device or thread.
        window: The window.
        only: Begin of the category wanted; empty takes all.
        categories: Category of each name; needed for ``only``.
    """
    starts = np.frombuffer(lane.starts, dtype=np.float64)
    ends = starts + np.frombuffer(lane.durations, dtype=np.float64)
    names = np.frombuffer(lane.names, dtype=np.dtype(f"u{lane.names.itemsize}")).astype(np.int64)
    inside = (ends > window.start_us) & (starts < window.end_us)
    if only:
        inside &= np.array([category.startswith(only) for category in categories], dtype=bool)[names]
    starts, ends, names = starts[inside], ends[inside], names[inside]
    order = np.lexsort((-ends, starts))
    return np.clip(starts[order], window.start_us, None), np.clip(ends[order], None, window.end_us), names[order]


def credited(
    timeline: Timeline, window: Window, names: Ints, own: Floats, whole: Floats, *, whole_overlap: float
) -> Credit:
    """Sum what is credited by category."""
    us: dict[str, float] = {}
    counts: dict[str, int] = {}
    collectives: dict[str, Floats] = {}
    if len(names):
        sums = np.bincount(names, weights=own, minlength=len(timeline.names))
        times = np.bincount(names, minlength=len(timeline.names))
        for name in np.flatnonzero(times):
            category = timeline.categories[name]
            us[category] = us.get(category, 0.0) + float(sums[name])
            counts[category] = counts.get(category, 0) + int(times[name])
    for category in us:
        if category.startswith("comm") and category != ASKED_FOR:
            here = np.array([timeline.categories[name] == category for name in range(len(timeline.names))])
            collectives[category] = whole[here[names]]
    return Credit(window, us, counts, float(np.sum(own)), whole_overlap, collectives)


def added(one: Credit, more: Credit) -> Credit:
    """Both ranks of one rank."""
    us = {key: one.us.get(key, 0.0) + more.us.get(key, 0.0) for key in one.us | more.us}
    counts = {key: one.counts.get(key, 0) + more.counts.get(key, 0) for key in one.counts | more.counts}
    return Credit(
        one.window,
        us,
        counts,
        one.covered_us + more.covered_us,
        one.overlap_us + more.overlap_us,
        one.collectives | more.collectives,
    )


def self_times(starts: Floats, ends: Floats) -> Floats:
    """Time of each event that no event inside it has; an event that outlasts the one around it is cut there."""
    own = ends - starts
    open_: list[tuple[int, float]] = []
    for at in range(len(starts)):
        start, end = float(starts[at]), float(ends[at])
        while open_ and open_[-1][1] <= start:
            open_.pop()
        if open_:
            end = min(end, open_[-1][1])
            own[at] = end - start
            own[open_[-1][0]] -= end - start
        open_.append((at, end))
    return own


def union(starts: Floats, ends: Floats) -> tuple[Floats, Floats]:
    """Disjoint intervals that cover the same time; the events come in order of start."""
    if not len(starts):
        return starts, ends
    latest = np.maximum.accumulate(ends)
    first = np.concatenate(([True], starts[1:] > latest[:-1]))
    last = np.concatenate((first[1:], [True]))
    return starts[first], latest[last]


def uncovered(starts: Floats, ends: Floats, from_: Floats, to: Floats) -> Floats:
    """Length of each interval ``from_`` to ``to`` that lies outside of disjoint intervals."""
    lengths = np.concatenate(([0.0], np.cumsum(ends - starts)))

    def covered_until(at: Floats) -> Floats:
        whole = np.searchsorted(ends, at, side="right")
        inside = np.minimum(whole, len(starts) - 1)
        partly = np.clip(at - starts[inside], 0.0, None) if len(starts) else np.zeros_like(at)
        return lengths[whole] + np.where(whole < len(starts), partly, 0.0)

    return to - from_ - (covered_until(to) - covered_until(from_))


def match(ranks: Sequence[Credit]) -> tuple[tuple[Collective, ...], tuple[str, ...]]:
    """Collectives by kind; where every rank has as many, the i-th of each belong together.

    The last rank to arrive waits for nobody: its duration is transport, the shortest of all. The clocks of the
    ranks do not matter for that.
    """
    found: list[Collective] = []
    notes: list[str] = []
    steps = sum(one.window.steps for one in ranks)
    for category in sorted({category for one in ranks for category in one.collectives}):
        durations = [one.collectives[category] for one in ranks if category in one.collectives]
        every = np.concatenate(durations)
        if not len(every):
            continue
        transport = wait = None
        if len(durations) == len(ranks) > 1:
            counts = {len(one) for one in durations}
            if len(counts) == 1:
                shortest = cast("Floats", np.min(np.stack(durations), axis=0))
                transport, wait = float(np.mean(shortest)), float(np.mean(every) - np.mean(shortest))
            else:
                told = ", ".join(str(len(one)) for one in durations)
                notes.append(f"{category}: ranks have {told} instances, so waiting cannot be told from transport")
        found.append(
            Collective(
                category=category,
                count=len(every) / steps,
                mean_us=float(np.mean(every)),
                p50_us=float(np.percentile(every, 50)),
                p95_us=float(np.percentile(every, 95)),
                transport_us=transport,
                wait_us=wait,
            )
        )
    return tuple(found), tuple(notes)


def as_profile(totals: KernelTotals, *, length_ms: float | None = None) -> StepProfile:
    """Sums of kernels as one step, so that shares can be shown.

    Args:
        totals: Sums.
        length_ms: Length of the profile; None counts no idle time.
    """
    busy = sum(part.ms for part in totals.parts)
    length = max(busy, length_ms or busy)
    return StepProfile(
        source=totals.source,
        ranks=1,
        steps=1,
        bounded_by="nothing: these are sums over the whole profile",
        step_ms=length,
        parts=totals.parts,
        idle_ms=length - busy,
        notes=("sums over the whole profile: shares only, idle time is not in it",),
    )
