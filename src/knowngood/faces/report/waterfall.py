"""From the original baseline to now, one keep after the other."""

import math
from collections.abc import Sequence

from knowngood.faces.report.forest import DEEPEST
from knowngood.faces.report.history import Step
from knowngood.faces.report.marks import box, line, whisker, words
from knowngood.faces.report.markup import Node
from knowngood.faces.report.scale import SMALLEST, Axis, linear
from knowngood.faces.report.words import clip, percent, span

ROW = 27.0
BAR = 13.0
NAME = 34
"""Characters of a name that have room."""


def gain_axis(steps: Sequence[Step], *, start: float, end: float) -> Axis:
    """Axis of the gain over the original baseline, as a ratio minus one; zero is always on it."""
    seen = [0.0, *(value for step in steps for value in (step.before, step.after, step.low, step.high))]
    return linear(seen, start=start, end=end, most=6)


def rows(steps: Sequence[Step], axis: Axis, *, top: float, left: float, right: float) -> list[Node]:
    """The original baseline, a bar a keep with the interval of its effect, and the sum.

    Args:
        steps: The keeps in force, at least one.
        axis: Of the gains.
        top: Pixel of the first row.
        left: Pixel at which names begin.
        right: Pixel at which figures end.
    """
    zero = axis.at(0.0)
    marks: list[Node] = [words((left, top + ROW / 2), "Original baseline", "strong")]
    marks.append(line((zero, top), (zero, top + ROW), "level"))
    for at, step in enumerate(steps, start=1):
        middle = top + ROW * (at + 0.5)
        before, after = axis.at(step.before), axis.at(step.after)
        effect = (1 + step.after) / (1 + step.before) - 1
        marks += [
            line((before, middle - ROW / 2), (before, middle + BAR / 2), "level"),
            box(min(before, after), middle - BAR / 2, abs(after - before), BAR, "gain" if after >= before else "loss"),
            whisker(axis.at(step.low), axis.at(step.high), middle, "interval"),
            words((left, middle), step.trial.id, "muted number"),
            words((left + 46, middle), clip(step.trial.hypothesis.name, NAME)),
            words((right, middle), percent(effect), "strong number", anchor="end"),
            line((after, middle - BAR / 2), (after, middle + ROW / 2), "level"),
        ]
    final = top + ROW * (len(steps) + 1.5)
    total, end = steps[-1].after, axis.at(steps[-1].after)
    marks += [
        line((zero, top + ROW), (zero, final + BAR / 2 + 4), "zero"),
        box(min(zero, end), final - BAR / 2, abs(end - zero), BAR, "total"),
        words((left, final), "Known-good now", "strong"),
        words((right, final), percent(total), "strong number", anchor="end"),
    ]
    return marks


def depth(steps: Sequence[Step]) -> float:
    """Height of the rows, in pixels."""
    return ROW * (len(steps) + 2)


def axis_labels(axis: Axis, *, top: float, bottom: float) -> list[Node]:
    """Grid and labels, as a percentage of the original."""
    marks: list[Node] = []
    for tick in axis.ticks:
        x = axis.at(tick.value)
        marks += [line((x, top), (x, bottom), "grid")]
        marks += [words((x, bottom + 12), percent_label(tick.value), "tick", anchor="middle")]
    return marks


def percent_label(gain: float) -> str:
    """A gain as a tick label: a percentage, from a doubling on a factor."""
    if gain >= 1:
        return f"×{1 + gain:g}"
    return "original" if abs(gain) < SMALLEST else f"{100 * gain:+.3g}%".replace("-", "\N{MINUS SIGN}")


def tell(steps: Sequence[Step]) -> str:
    """The figure in words."""
    parts = [
        f"{step.trial.id} {step.trial.hypothesis.name} {percent((1 + step.after) / (1 + step.before) - 1)}"
        for step in steps
    ]
    return f"Kept, in order: {'; '.join(parts)}. Together {percent(steps[-1].after)} over the original baseline."


def combined(steps: Sequence[Step]) -> str:
    """Interval of the product, the keeps' intervals taken as independent; empty below two keeps."""
    if len(steps) <= 1:
        return ""
    middle = sum(math.log((1 + step.after) / (1 + step.before)) for step in steps)
    halves = [
        (math.log((1 + step.high) / (1 + step.before)) - math.log(max(1 + step.low, 1 + DEEPEST) / (1 + step.before)))
        / 2
        for step in steps
    ]
    half = math.sqrt(sum(value**2 for value in halves))
    return span(math.expm1(middle - half), math.expm1(middle + half))
