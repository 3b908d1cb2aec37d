"""Races: how each candidate came out, and who is beaten by nobody in two metrics at once."""

from collections.abc import Sequence

from knowngood.config.lab import better_direction
from knowngood.faces.races import RaceRow, rows
from knowngood.faces.report.chips import captioned, chip, table
from knowngood.faces.report.contents import Contents
from knowngood.faces.report.marks import across, curve, diamond, dot, figure, upward, words
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.scale import linear
from knowngood.faces.report.words import clip, count, duration, moment, percent, quantity, title
from knowngood.model.race import Point
from knowngood.reason.fold import confirmation
from knowngood.reason.pareto import pareto
from knowngood.reason.records import RaceRun

WIDTH, HEIGHT = 720.0, 320.0
LEFT, RIGHT = 70.0, 700.0
TOP, BOTTOM = 26.0, 270.0


def races_chapter(contents: Contents) -> Markup | None:
    """All races; None before the first."""
    races = contents.state.races.values()
    if not races:
        return None
    note = (
        "In each block every candidate that is still in the race is launched once; who trails the leader or looks "
        "worse than the baseline drops out. Effects of a race are for choosing only: what counts is the winner's trial."
    )
    return element(
        "section",
        element("h2", "Races"),
        *(race_article(contents, race) for race in races),
        element("p", note, class_="note"),
        id="races",
    )


def race_article(contents: Contents, race: RaceRun) -> Markup:
    """One race: what came out, everybody in it, the two metrics."""
    trial = confirmation(contents.state, race)
    proven: Node = [" Its trial: ", element("a", trial.id, href=f"#{trial.id}"), "."] if trial else None
    ended = duration(race.ended_at - race.started_at) if race.ended_at is not None else "not ended"
    about = f"{count(len(race.candidates), 'candidate')}, {count(len(race.launches), 'launch')}, {ended}; "
    about += f"begun {moment(race.started_at)}, against baseline {race.baseline}"
    found = rows(race)
    lower = (better_direction(race.metrics[0]) == "lower", better_direction(race.metrics[1]) == "lower")
    workload = contents.config.workloads[0].name
    points = pareto(race.launches, race.metrics, workload=workload, lower_is_better=lower)
    numbers = {one.name: at for at, one in enumerate(found, start=1)}
    return element(
        "article",
        element("h3", element("span", race.id, class_="id"), " ", clip(race.winner, 80) or "no winner"),
        element("p", race.why, ".", proven),
        element("p", about, class_="note"),
        table(
            ("#", "Candidate", "State", "#Effect", "#Launches", ""),
            [table_row(numbers[one.name], one) for one in found],
        ),
        element(
            "ul", *(element("li", f"{name} was left out: {why}") for name, why in race.left_out.items()), class_="plain"
        )
        if race.left_out
        else None,
        pareto_figure(race, points, numbers) if points else None,
        id=race.id,
    )


def table_row(number: int, one: RaceRow) -> list[Node]:
    """One candidate."""
    spread = element("small", f" ± {one.sd:.1%}") if one.sd is not None else None
    why = one.why or (f"dropped out after block {one.block}" if one.block else "")
    return [
        str(number),
        element("b", clip(one.name, 120)),
        chip(one.state),
        [percent(one.estimate), spread] if one.estimate is not None else "–",
        str(one.launches),
        element("span", clip(why, 200), class_="wrap"),
    ]


def pareto_figure(race: RaceRun, points: Sequence[Point], numbers: dict[str, int]) -> Markup:
    """Everything that was raced in two metrics; the front is the line of those whom nobody beats in both."""
    x_axis = linear([one.x for one in points], start=LEFT, end=RIGHT)
    y_axis = linear([one.y for one in points], start=BOTTOM, end=TOP)
    places = {one.name: (x_axis.at(one.x), y_axis.at(one.y)) for one in points}
    front = [one for one in points if one.on_front]
    marks: list[Node] = [*across(x_axis, top=TOP, bottom=BOTTOM), *upward(y_axis, left=LEFT, right=RIGHT)]
    marks.append(curve([places[one.name] for one in front], "cand-curve") if len(front) > 1 else None)
    for one in points:
        at = places[one.name]
        faded = "" if one.on_front else " spoiled"
        marks.append(diamond(at, 5, f"cand{faded}") if one.name else dot(at, 4.5, "base"))
        label = str(numbers[one.name]) if one.name else "baseline"
        marks.append(words((at[0] + 8, at[1] - 9), label, "strong number" if one.on_front else "muted number"))
    first, second = race.metrics
    marks.append(words((RIGHT, BOTTOM + 30), label_of(first), "tick", anchor="end"))
    marks.append(words((0, TOP - 16), label_of(second), "tick"))
    drawing = figure(
        *marks,
        name=f"{race.id}-pareto",
        width=WIDTH,
        height=HEIGHT,
        title=f"{title(first)} against {title(second)}",
        told="; ".join(tell(one, race.metrics) for one in points),
    )
    note = "Medians over launches. Numbers as in the table; on the line nobody is beaten in both metrics."
    return captioned(drawing, f"{title(first)} against {title(second)}", note)


def label_of(metric: str) -> str:
    """A metric with its direction."""
    return f"{title(metric)}, {metric} ({'less' if better_direction(metric) == 'lower' else 'more'} is better)"


def tell(one: Point, metrics: tuple[str, str]) -> str:
    """One point in words."""
    where = f"{one.name or 'baseline'}: {quantity(one.x, metrics[0])}, {quantity(one.y, metrics[1])}"
    return where + (", not beaten in both" if one.on_front else "")
