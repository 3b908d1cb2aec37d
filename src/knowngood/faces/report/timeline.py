"""The launches of one trial over time, and what others did to the machine meanwhile."""

import statistics
from collections.abc import Sequence

from knowngood.faces.report.history import counted
from knowngood.faces.report.marks import across, box, cross, diamond, dot, figure, line, upward, words
from knowngood.faces.report.markup import Markup, Node
from knowngood.faces.report.scale import Axis, linear
from knowngood.faces.report.words import count, quantity, title, unit
from knowngood.model.evidence import Arm, LaunchRecord
from knowngood.reason.load import foreign_cores
from knowngood.reason.records import Trial

WIDTH, HEIGHT = 470.0, 254.0
LEFT, RIGHT = 54.0, 462.0
TOP, BOTTOM = 28.0, 152.0
LOAD_TOP, LOAD_BOTTOM = 184.0, 216.0
LEAST_CORES = 0.5
"""Foreign load below this looks small on its axis, as it is."""
MINUTE, LONG = 60.0, 180.0


def launch_timeline(name: str, trial: Trial, *, metric: str, workload: str, known: Sequence[float] = ()) -> Markup:
    """Every launch at its time: value above, foreign load below.

    Args:
        name: Of the figure, unique in the document.
        trial: With at least one launch.
        metric: The objective's.
        workload: The objective's; single passes of a launch that was verified are drawn small.
        known: Values of earlier launches of the baseline: its level where the trial launched it not once.
    """
    launches = trial.launches
    in_hours = (launches[-1].started_at - launches[0].started_at) / MINUTE > LONG
    long = MINUTE * MINUTE if in_hours else MINUTE
    at = [(launch.started_at - launches[0].started_at) / long for launch in launches]
    time = linear([*at, 0.0, at[-1] or 1.0], start=LEFT, end=RIGHT)
    levels = arm_levels(trial, known)
    values = linear([*(launch.value for launch in launches), *levels.values()], start=BOTTOM, end=TOP, most=5)
    cores = linear([LEAST_CORES, *map(foreign_cores, launches)], start=LOAD_BOTTOM, end=LOAD_TOP, most=2, floor=0.0)
    marks: list[Node] = [*legend(), *upward(values, left=LEFT, right=RIGHT), *upward(cores, left=LEFT, right=RIGHT)]
    marks += [*across(time, top=LOAD_BOTTOM, bottom=LOAD_BOTTOM + 2), *level_lines(levels, values)]
    marks.append(words((RIGHT, LOAD_BOTTOM + 28), "hours" if in_hours else "minutes", "tick", anchor="end"))
    marks.append(words((LEFT + 3, LOAD_TOP - 12), "foreign load, cores", "tick"))
    for when, launch in zip(at, launches, strict=True):
        x = time.at(when)
        load = cores.at(foreign_cores(launch))
        marks.append(box(x - 2.5, load, 5, LOAD_BOTTOM - load, "load"))
        marks += passes(launch, values, x, metric=metric, workload=workload)
        marks.append(launch_mark(launch, (x, values.at(launch.value)), counts=counted(trial, launch)))
    told = tell(launches, trial, metric)
    heading = f"{title(metric)} of each launch{', in' * bool(unit(metric))}{unit(metric)}"
    return figure(*marks, name=name, width=WIDTH, height=HEIGHT, title=heading, told=told)


def launch_mark(launch: LaunchRecord, place: tuple[float, float], *, counts: bool) -> list[Node]:
    """The sign of one launch: arm by shape and colour, crossed out if it does not count."""
    faded = "" if counts else " spoiled"
    sign = dot(place, 4.2, f"base{faded}") if launch.arm == "baseline" else diamond(place, 5.2, f"cand{faded}")
    return [sign] if counts else [sign, cross(place, 5.5, "cross")]


def passes(launch: LaunchRecord, values: Axis, x: float, *, metric: str, workload: str) -> list[Node]:
    """The single passes of a launch that was measured more than once."""
    seen = [run.metrics[metric] for run in launch.runs if run.workload == workload and metric in run.metrics]
    return [dot((x, values.at(value)), 1.6, "pass") for value in seen] if len(seen) > 1 else []


def arm_levels(trial: Trial, known: Sequence[float]) -> dict[Arm, float]:
    """Median of each arm's launches that count; of earlier ones, where the baseline was not launched."""
    levels: dict[Arm, float] = {}
    for arm in ("baseline", "candidate"):
        seen = [launch.value for launch in trial.launches if launch.arm == arm and counted(trial, launch)]
        if arm == "baseline" and not seen:
            seen = list(known)
        if seen:
            levels[arm] = statistics.median(seen)
    return levels


def level_lines(levels: dict[Arm, float], values: Axis) -> list[Node]:
    """A thin line at the level of each arm."""
    return [
        line((LEFT, values.at(value)), (RIGHT, values.at(value)), "base-line" if arm == "baseline" else "cand-line")
        for arm, value in levels.items()
    ]


def legend() -> list[Node]:
    """Signs of the arms."""
    return [
        dot((LEFT + 5, 10), 4.2, "base"),
        words((LEFT + 14, 10), "baseline", "tick"),
        diamond((LEFT + 78, 10), 5.2, "cand"),
        words((LEFT + 88, 10), "candidate", "tick"),
    ]


def tell(launches: Sequence[LaunchRecord], trial: Trial, metric: str) -> str:
    """The figure in words."""
    told = "; ".join(
        f"{launch.arm} {quantity(launch.value, metric)}" + ("" if counted(trial, launch) else " (does not count)")
        for launch in launches
    )
    return f"{count(len(launches), 'launch')} in order of time: {told}."
