"""What is shown of a race: values for programs, the same as text for people."""

from collections.abc import Mapping, Sequence

import click
import msgspec

from knowngood.faces.layout import columns, percent
from knowngood.faces.views import TrialView, View, trial_view
from knowngood.model.race import Point, Standing
from knowngood.reason.records import RaceRun, Trial

SIGNS = {"winner": "green", "level": "cyan", "behind": "yellow", "worse": "yellow", "failed": "red"}


class RaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate: how it stands, launches, shrunk effect with its spread, when and why it dropped out."""

    name: str
    state: str
    launches: int
    estimate: float | None
    sd: float | None
    block: int
    why: str = ""


class RaceView(View, frozen=True, kw_only=True, tag="knowngood/race/1"):
    """One race.

    Attributes:
        id: Of the race.
        winner: Name of the candidate that went into the confirming trial; empty if there was none.
        why: How the race ended.
        rows: Every candidate, the winner first.
        left_out: Candidate to the reason why it was not raced.
        launches: Launches of the race that counted.
        minutes: Its duration; None while it runs.
        metrics: The two metrics of ``points``.
        points: Every candidate and the baseline, whose name is empty; nobody beats those ``on_front`` in both metrics.
        trial: The confirming trial.
    """

    id: str
    winner: str
    why: str
    rows: tuple[RaceRow, ...]
    left_out: dict[str, str]
    launches: int
    minutes: float | None
    metrics: tuple[str, str]
    points: tuple[Point, ...]
    trial: TrialView | None = None


class RacePlanView(View, frozen=True, kw_only=True, tag="knowngood/race-plan/1"):
    """What a race would do.

    Attributes:
        candidates: Who would race from the start.
        left_out: Candidate to the reason why it would not be raced.
        proposals: Further candidates that a space would propose, at most.
        expected_launches: Launches it takes on average, those of the confirming trial included.
        worst_launches: Launches it takes at most.
        expected_min: The same in minutes.
        worst_min: Minutes it takes at most.
    """

    candidates: tuple[str, ...]
    left_out: dict[str, str]
    proposals: int
    expected_launches: float
    worst_launches: int
    expected_min: float
    worst_min: float


def race_view(race: RaceRun, points: Sequence[Point], *, metrics: tuple[str, str], trial: Trial | None) -> RaceView:
    """Show one race."""
    return RaceView(
        id=race.id,
        winner=race.winner,
        why=race.why,
        rows=rows(race),
        left_out=race.left_out,
        launches=len(race.launches),
        minutes=None if race.ended_at is None else (race.ended_at - race.started_at) / 60,
        metrics=metrics,
        points=tuple(points),
        trial=trial_view(trial) if trial else None,
    )


def rows(race: RaceRun) -> tuple[RaceRow, ...]:
    """Every candidate; of a race that is under way or was cut off, in the order they came in."""
    whys = {one.candidate: one.why for one in race.failures}
    if race.standings:
        return tuple(row(one, whys) for one in race.standings)
    counts = {one.name: sum(launch.candidate == one.name for launch in race.launches) for one in race.candidates}
    return tuple(
        RaceRow(
            name=name,
            state="failed" if name in whys else "running",
            launches=count,
            estimate=None,
            sd=None,
            block=0,
            why=whys.get(name, ""),
        )
        for name, count in counts.items()
    )


def row(one: Standing, whys: Mapping[str, str]) -> RaceRow:
    """One candidate of a race that is over."""
    return RaceRow(
        name=one.name,
        state=one.state,
        launches=one.launches,
        estimate=one.estimate,
        sd=one.sd,
        block=one.block,
        why=whys.get(one.name, ""),
    )


def race_text(view: RaceView, trial: str) -> str:
    """One race as text.

    Args:
        view: The race.
        trial: One line on the confirming trial; empty if there was none.
    """
    lines = [f"{view.id}  {view.why}", columns([cells(one) for one in view.rows], indent="  ")]
    lines += [f"  {name} was left out: {why}" for name, why in view.left_out.items()]
    if view.points:
        lines += [f"{view.metrics[0]} against {view.metrics[1]}, * nobody is better in both", front(view.points)]
    return "\n".join([*lines, trial] if trial else lines)


def cells(one: RaceRow) -> tuple[str, str, str, str, str]:
    """One candidate as cells of a table."""
    effect = "" if one.estimate is None else percent(one.estimate) + ("" if one.sd is None else f" ± {one.sd:.1%}")
    launches = f"{one.launches} launch{'' if one.launches == 1 else 'es'}"
    why = one.why or (f"dropped out after block {one.block}" if one.block else "")
    return one.name, click.style(one.state, fg=SIGNS.get(one.state)), launches, effect, why


def front(points: Sequence[Point]) -> str:
    """Points of the Pareto view, the best in the first metric first."""
    found = [("*" if one.on_front else " ", one.name or "baseline", f"{one.x:.4g}", f"{one.y:.4g}") for one in points]
    return columns(found, indent="  ")


def plan_text(view: RacePlanView) -> str:
    """What a race would do, as text."""
    lines = [f"would race: {name}" for name in view.candidates]
    lines += [f"would propose up to {view.proposals} combinations"] if view.proposals else []
    lines += [f"left out: {name}: {why}" for name, why in view.left_out.items()]
    lines.append(
        f"about {view.expected_launches:.0f} launches with the confirming trial, at most {view.worst_launches}; "
        f"about {view.expected_min:.0f} min, at most {view.worst_min:.0f} min"
    )
    return "\n".join(lines)
