"""Foreign load: work of others that ran beside a measurement. Uneven between the arms, it turns rankings round."""

from knowngood.model.evidence import LaunchRecord


def foreign_cores(launch: LaunchRecord) -> float:
    """CPU that others used while a launch was measured, in cores: mean over its runs, weighted by their length."""
    seconds = sum(run.seconds for run in launch.runs)
    if not seconds:
        return 0.0
    return sum(run.foreign_cores * run.seconds for run in launch.runs) / seconds
