"""Effects with their intervals: the pairs of one trial, and one row a trial for all of them."""

import math
from collections.abc import Sequence

from knowngood.faces.report.history import PairDifference
from knowngood.faces.report.marks import across, box, cross, diamond, dot, figure, line, whisker, words
from knowngood.faces.report.markup import Markup, Node
from knowngood.faces.report.scale import Axis, bent_effects, effects
from knowngood.faces.report.words import count, percent, span
from knowngood.model.verdict import Verdict

WIDTH = 470.0
LEFT, RIGHT = 62.0, 392.0
TOP = 28.0
ROW = 19.0
DEEPEST = -0.995
"""An interval may say that everything is lost; an axis cannot go there."""


def ln(effect: float | None) -> float:
    """A ratio minus one in ln units."""
    return math.log1p(max(effect or 0.0, DEEPEST))


def interval(verdict: Verdict) -> tuple[float, float, float] | None:
    """Estimate and interval of a verdict in ln units; None if it has no numbers, as a void one must not."""
    if verdict.decision == "void" or verdict.estimate is None or verdict.low is None or verdict.high is None:
        return None
    return ln(verdict.estimate), ln(verdict.low), ln(verdict.high)


def pair_forest(
    name: str, differences: Sequence[PairDifference], verdict: Verdict | None, *, worthwhile: float, spread: float
) -> Markup:
    """The pairs of one trial, their sum, and the lines that they are judged by.

    Args:
        name: Of the figure, unique in the document.
        differences: Pairs in the order they were measured.
        verdict: Where the interval comes from; None draws none.
        worthwhile: Smallest effect worth keeping, as a ratio minus one.
        spread: Standard deviation of an A/A difference, in ln units; 0 draws no band.
    """
    found = interval(verdict) if verdict else None
    shown = [one.ln for one in differences] + list(found or ()) + [ln(worthwhile), spread, -spread]
    axis = effects(shown, start=LEFT, end=RIGHT)
    bottom = TOP + ROW * (len(differences) + (1.6 if found else 0.2))
    marks: list[Node] = [noise_band(axis, spread, top=TOP, bottom=bottom), *across(axis, top=TOP, bottom=bottom)]
    marks += reference_lines(axis, worthwhile, top=TOP, bottom=bottom)
    for at, one in enumerate(differences):
        marks.append(pair_row(axis, one, y=TOP + ROW * (at + 0.6)))
    if found and verdict:
        y = TOP + ROW * (len(differences) + 0.9)
        marks += [words((0, y), "effect", "strong"), *estimate(axis, found, y=y)]
        marks.append(words((WIDTH, y), percent(verdict.estimate), "strong number", anchor="end"))
    return figure(
        *marks,
        name=name,
        width=WIDTH,
        height=bottom + 22,
        title="Difference of each pair, and the effect",
        told=tell_pairs(differences, verdict if found else None),
    )


def pair_row(axis: Axis, one: PairDifference, *, y: float) -> list[Node]:
    """One pair: a dot, crossed out if it does not count."""
    x, effect = axis.at(one.ln), math.expm1(one.ln)
    label = f"pair {one.pair + 1}" + ("" if one.counts else "\N{PRIME}")
    row: list[Node] = [words((0, y), label, "muted")]
    row.append(dot((x, y), 4, "pair" if one.counts else "pair spoiled"))
    if not one.counts:
        row.append(cross((x, y), 5, "cross"))
    row.append(words((WIDTH, y), percent(effect), "number" if one.counts else "number struck", anchor="end"))
    return row


def noise_band(axis: Axis, spread: float, *, top: float, bottom: float) -> Node:
    """Where two launches of the same thing differ by, two times out of three."""
    if not spread:
        return None
    low, high = axis.at(-spread), axis.at(spread)
    return box(low, top, high - low, bottom - top, "band")


def reference_lines(axis: Axis, worthwhile: float, *, top: float, bottom: float) -> list[Node]:
    """The line of no effect and the line of the smallest effect worth keeping."""
    zero, worth = axis.at(0.0), axis.at(ln(worthwhile))
    return [
        line((zero, top - 4), (zero, bottom), "zero"),
        line((worth, top - 4), (worth, bottom), "worth"),
        words((zero - 3, top - 11), "no effect", "tick", anchor="end"),
        words((worth + 3, top - 11), "worthwhile", "tick worth-name"),
    ]


def estimate(axis: Axis, found: tuple[float, float, float], *, y: float, kind: str = "") -> list[Node]:
    """An interval with its estimate; an arrow where it leaves the axis."""
    middle, low, high = found
    return [
        whisker(axis.at(low), axis.at(high), y, f"interval {kind}".strip()),
        diamond((axis.at(middle), y), 5.5, f"estimate {kind}".strip()),
    ]


def tell_pairs(differences: Sequence[PairDifference], verdict: Verdict | None) -> str:
    """The figure in words."""
    told = ", ".join(percent(math.expm1(one.ln)) + ("" if one.counts else " (does not count)") for one in differences)
    text = f"{count(len(differences), 'pair')}: {told or 'none'}."
    if verdict is None:
        return text
    return f"{text} Effect {percent(verdict.estimate)}, {verdict.level:.0%} interval {span(verdict.low, verdict.high)}."


def shared_axis(verdicts: Sequence[Verdict | None], worthwhile: float, *, start: float, end: float) -> Axis:
    """One axis for the effects of all trials."""
    found = [seen for verdict in verdicts if verdict and (seen := interval(verdict))]
    return bent_effects([value for seen in found for value in seen] + [ln(worthwhile)], start=start, end=end)
