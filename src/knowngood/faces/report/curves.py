"""Latency distributions of both arms, out of the raw samples of a trial."""

from collections.abc import Iterable, Sequence

import msgspec

from knowngood.errors import LoadError, NotFound
from knowngood.faces.report.history import counted
from knowngood.loads.samples import Sample, read_samples
from knowngood.model.evidence import Arm
from knowngood.model.workload import Workload
from knowngood.ports import Artifacts
from knowngood.reason.records import Trial

POINTS = 120
"""Points that a curve is drawn with."""
SHOWN = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"))
LEAST = 20
"""Fewer values than this are no distribution."""
CLOCK_MS = 0.001
"""Resolution of the samples: events that arrived in one read have no gap at all."""


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """An empirical distribution function, thinned for drawing.

    Attributes:
        arm: Whose values.
        values: Ascending, in milliseconds.
        shares: Share of all values up to each, from 0 to 1.
        count: How many values there were.
        quantiles: Name to value, in milliseconds.
    """

    arm: Arm
    values: tuple[float, ...]
    shares: tuple[float, ...]
    count: int
    quantiles: dict[str, float]


class Distributions(msgspec.Struct, frozen=True, kw_only=True):
    """What the raw samples of a trial show.

    Attributes:
        ttft: Time to first token, one curve an arm; empty if there are no samples.
        itl: Gaps between tokens, the same.
        passes: Passes whose samples were read.
        missing: Passes whose samples are not there or cannot be read.
    """

    ttft: tuple[Curve, ...] = ()
    itl: tuple[Curve, ...] = ()
    passes: int = 0
    missing: int = 0


def read_distributions(trial: Trial, artifacts: Artifacts, workload: Workload) -> Distributions:
    """Read the samples of a trial's launches that count.

    Args:
        trial: The trial.
        artifacts: Where its samples lie.
        workload: The objective's; open-loop latencies count from the scheduled arrival.
    """
    ttft: dict[Arm, list[float]] = {"baseline": [], "candidate": []}
    itl: dict[Arm, list[float]] = {"baseline": [], "candidate": []}
    passes = missing = 0
    for launch in trial.launches:
        # What another's client wrote is kept, too, but holds no samples of ours.
        own = [run for run in launch.runs if run.workload == workload.name and not run.client]
        digests = [run.samples for run in own if run.samples]
        for digest in digests if counted(trial, launch) else ():
            try:
                requests = read_samples(artifacts.path(digest)).requests
            except (NotFound, LoadError):
                missing += 1
                continue
            passes += 1
            good = [one for one in requests if one.phase == "measured" and not one.error]
            ttft[launch.arm] += first_tokens_ms(good, is_open=workload.rate > 0)
            itl[launch.arm] += [gap / 1000 for one in good for gap in one.gaps_us]
    return Distributions(ttft=curves(ttft), itl=curves(itl), passes=passes, missing=missing)


def first_tokens_ms(requests: Iterable[Sample], *, is_open: bool) -> list[float]:
    """Time to first token of each request, in milliseconds."""
    return [
        (one.sent_us + one.ttft_us - (one.scheduled_us if is_open else one.sent_us)) / 1000
        for one in requests
        if one.ttft_us is not None
    ]


def curves(values: dict[Arm, list[float]]) -> tuple[Curve, ...]:
    """One curve an arm; none at all unless both arms have enough values to compare."""
    if any(len(seen) < LEAST for seen in values.values()):
        return ()
    return tuple(cumulate(arm, seen) for arm, seen in values.items())


def cumulate(arm: Arm, values: Sequence[float]) -> Curve:
    """The empirical distribution function of values, drawn through evenly spaced and through extreme quantiles."""
    import numpy as np  # noqa: PLC0415  (only where samples were read)

    ordered = np.sort(np.maximum(values, CLOCK_MS))
    count = len(ordered)
    ranks = np.unique(np.linspace(0, count - 1, min(POINTS, count)).astype(int))
    tail = count - 1 - np.unique((np.array([0.01, 0.005, 0.002, 0.001]) * count).astype(int))
    ranks = np.union1d(ranks, tail)
    points = np.percentile(ordered, [100 * share for share, _ in SHOWN])
    return Curve(
        arm=arm,
        values=tuple(ordered[ranks].tolist()),
        shares=tuple(((ranks + 1) / count).tolist()),
        count=count,
        quantiles={name: float(value) for (_, name), value in zip(SHOWN, points, strict=True)},
    )
