"""Latency distributions of both arms as cumulative curves over a logarithmic axis."""

from collections.abc import Sequence

from knowngood.faces.report.curves import Curve
from knowngood.faces.report.marks import across, curve, diamond, dot, figure, line, words
from knowngood.faces.report.markup import Markup, Node
from knowngood.faces.report.scale import Axis, Tick, logarithmic, straight
from knowngood.faces.report.words import number, percent

WIDTH, HEIGHT = 470.0, 212.0
LEFT, RIGHT = 44.0, 462.0
TOP, BOTTOM = 28.0, 176.0
SHARES = Axis(
    low=0.0,
    high=1.0,
    start=BOTTOM,
    end=TOP,
    bend=straight,
    ticks=(Tick(0.0, "0"), Tick(0.5, "p50"), Tick(0.9, "p90"), Tick(0.99, "p99")),
)
FROM = 0.005
"""Share below which a curve is cut off on the left: single fast events would stretch the axis."""


def latency_curves(name: str, curves: Sequence[Curve], title: str) -> Markup:
    """The distribution of a latency in both arms.

    Args:
        name: Of the figure, unique in the document.
        curves: One an arm.
        title: What is shown, with its unit.
    """
    inside = [value for one in curves for value, share in zip(one.values, one.shares, strict=True) if share >= FROM]
    axis = logarithmic(min(inside), max(inside), start=LEFT, end=RIGHT)
    marks: list[Node] = [*across(axis, top=TOP, bottom=BOTTOM), *shares()]
    for one in curves:
        points = [
            (axis.at(value), SHARES.at(share))
            for value, share in zip(one.values, one.shares, strict=True)
            if share >= FROM
        ]
        marks.append(curve(points, "base-curve" if one.arm == "baseline" else "cand-curve"))
        marks += [sign(one, (axis.at(value), SHARES.at(int(q[1:]) / 100))) for q, value in one.quantiles.items()]
    marks += legend()
    marks.append(words((RIGHT, BOTTOM + 28), "ms", "tick", anchor="end"))
    return figure(*marks, name=name, width=WIDTH, height=HEIGHT, title=title, told=tell(curves))


def sign(one: Curve, place: tuple[float, float]) -> Node:
    """The arm's sign at a quantile."""
    return dot(place, 3.4, "base") if one.arm == "baseline" else diamond(place, 4.4, "cand")


def shares() -> list[Node]:
    """Grid and labels of the quantiles."""
    marks: list[Node] = []
    for tick in SHARES.ticks:
        y = SHARES.at(tick.value)
        # p99 stands 15 pixels above p90: still room for both.
        marks += [line((LEFT, y), (RIGHT, y), "grid"), words((LEFT - 6, y), tick.label, "tick", anchor="end")]
    return marks


def legend() -> list[Node]:
    """How the arms are drawn."""
    return [
        curve(((LEFT, 10), (LEFT + 22, 10)), "base-curve"),
        dot((LEFT + 11, 10), 3.4, "base"),
        words((LEFT + 28, 10), "baseline", "tick"),
        curve(((LEFT + 92, 10), (LEFT + 114, 10)), "cand-curve"),
        diamond((LEFT + 103, 10), 4.4, "cand"),
        words((LEFT + 120, 10), "candidate", "tick"),
    ]


def tell(curves: Sequence[Curve]) -> str:
    """The figure in words."""
    return ". ".join(
        f"{one.arm}: " + ", ".join(f"{name} {number(value)} ms" for name, value in one.quantiles.items())
        for one in curves
    )


def changes(curves: Sequence[Curve]) -> list[tuple[str, str, str, str]]:
    """Quantile, baseline, candidate and the change, as text; empty if an arm is missing."""
    found = {one.arm: one.quantiles for one in curves}
    if set(found) != {"baseline", "candidate"}:
        return []
    return [
        (name, number(base), number(found["candidate"][name]), percent(found["candidate"][name] / base - 1))
        for name, base in found["baseline"].items()
    ]
