"""Which candidates nobody beats in both of two metrics."""

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from knowngood.model.evidence import LaunchRecord
from knowngood.model.race import Point
from knowngood.reason.comparison import median_metric


def usual_metrics(objective: str, *, lower_is_better: bool) -> tuple[str, str]:
    """The two metrics that most people weigh: the objective, and the waiting time or the throughput against it."""
    return ("output_tok_s", objective) if lower_is_better else (objective, "ttft_p99_ms")


def pareto(
    launches: Sequence[LaunchRecord], metrics: tuple[str, str], *, workload: str, lower_is_better: tuple[bool, bool]
) -> tuple[Point, ...]:
    """Place everything that was launched in two metrics.

    Args:
        launches: Those that count, of the baseline and of all candidates.
        metrics: Names of the two metrics.
        workload: Whose metrics.
        lower_is_better: For each metric.

    Returns:
        One point a candidate, and one for the baseline, by the first metric, the best first. Who lacks a metric is
        left out. Points of one launch are as uncertain as one launch is.
    """
    runs: dict[str, list[LaunchRecord]] = {}
    for launch in launches:
        runs.setdefault(launch.candidate, []).append(launch)
    points: list[Point] = []
    for name, own in runs.items():
        x, y = (middle(own, metric, workload=workload) for metric in metrics)
        if x is not None and y is not None:
            points.append(Point(name=name, x=x, y=y, launches=len(own)))
    signs = tuple(-1.0 if lower else 1.0 for lower in lower_is_better)
    scores = {one.name: (signs[0] * one.x, signs[1] * one.y) for one in points}
    marked = (msgspec.structs.replace(one, on_front=not is_beaten(scores, one.name)) for one in points)
    return tuple(sorted(marked, key=lambda one: scores[one.name], reverse=True))


def middle(launches: Sequence[LaunchRecord], metric: str, *, workload: str) -> float | None:
    """Median of a metric over launches; None if none has it."""
    values = [value for launch in launches if (value := median_metric(launch.runs, workload, metric)) is not None]
    return statistics.median(values) if values else None


def is_beaten(scores: Mapping[str, tuple[float, float]], name: str) -> bool:
    """Whether somebody is at least as good in both scores and better in one."""
    x, y = scores[name]
    return any(a >= x and b >= y and (a > x or b > y) for a, b in scores.values())
