"""Foreign load: work of others that ran beside a measurement. Uneven between the arms, it turns rankings round."""

import statistics
from collections.abc import Sequence

from knowngood.model.evidence import LaunchRecord


def foreign_cores(launch: LaunchRecord) -> float:
    """CPU that others used while a launch was measured, in cores: mean over its runs, weighted by their length."""
    seconds = sum(run.seconds for run in launch.runs)
    if not seconds:
        return 0.0
    return sum(run.foreign_cores * run.seconds for run in launch.runs) / seconds


def is_uneven(one: LaunchRecord, other: LaunchRecord, *, limit: float) -> bool:
    """Whether two launches saw foreign load that differs by more than ``limit`` cores."""
    return abs(foreign_cores(one) - foreign_cores(other)) > limit


def is_unlike(launch: LaunchRecord, others: Sequence[LaunchRecord], *, limit: float) -> bool:
    """Whether a launch saw foreign load unlike the median of ``others``, by more than ``limit`` cores."""
    return bool(others) and abs(foreign_cores(launch) - statistics.median(map(foreign_cores, others))) > limit


def foreign_load(launches: Sequence[LaunchRecord]) -> str:
    """Name the foreign load of launches, for people."""
    return ", ".join(f"{launch.arm} {foreign_cores(launch):.2f} cores of foreign load" for launch in launches)
