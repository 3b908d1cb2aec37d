"""Marks of a figure: lines, signs, words, and the frame around them. Every mark is plain SVG; colours are classes."""

from collections.abc import Sequence

from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.scale import Axis

Point = tuple[float, float]
BASELINE_DROP = 4.0
"""Pixels from the middle of a line of text to the line it stands on."""


def figure(*marks: Node, name: str, width: float, height: float, title: str, told: str) -> Markup:
    """A figure that fits any width and can be read aloud.

    Args:
        marks: What it shows.
        name: Unique in the document.
        width: In pixels, at full size.
        height: In pixels, at full size.
        title: What it is.
        told: What it shows, in words, for those who do not see it.
    """
    return element(
        "svg",
        element("title", title, id=f"{name}-title"),
        element("desc", told, id=f"{name}-desc"),
        *marks,
        class_="figure",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
    )


def line(one: Point, other: Point, kind: str) -> Markup:
    """A straight line."""
    return element("line", x1=one[0], y1=one[1], x2=other[0], y2=other[1], class_=kind)


def box(x: float, y: float, width: float, height: float, kind: str) -> Markup:
    """A rectangle."""
    return element("rect", x=x, y=y, width=max(width, 0.0), height=max(height, 0.0), class_=kind)


def words(at: Point, text: str, kind: str = "", *, anchor: str = "start") -> Markup:
    """A line of text, its middle at the point's height."""
    place = anchor if anchor != "start" else None
    return element("text", text, x=at[0], y=at[1] + BASELINE_DROP, class_=kind or None, text_anchor=place)


def dot(at: Point, radius: float, kind: str) -> Markup:
    """A circle: the sign of the baseline."""
    return element("circle", cx=at[0], cy=at[1], r=radius, class_=kind)


def diamond(at: Point, radius: float, kind: str, *, wide: float | None = None) -> Markup:
    """A diamond: the sign of the candidate, and of an estimate."""
    (x, y), w = at, radius if wide is None else wide
    corners = ((x - w, y), (x, y - radius), (x + w, y), (x, y + radius))
    return element("polygon", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in corners), class_=kind)


def cross(at: Point, radius: float, kind: str) -> Markup:
    """A cross: what does not count."""
    x, y = at
    left, top, across_it = x - radius, y - radius, 2 * radius
    strokes = f"M{left:.1f} {top:.1f}l{across_it:g} {across_it:g}m0 {-across_it:g}l{-across_it:g} {across_it:g}"
    return element("path", d=strokes, class_=kind)


def curve(points: Sequence[Point], kind: str) -> Markup:
    """A line through points."""
    return element("path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), class_=kind)


def whisker(low: float, high: float, y: float, kind: str, *, cap: float = 4.0) -> Markup:
    """A horizontal interval with caps."""
    strokes = f"M{low:.1f} {y - cap:.1f}v{2 * cap:g}m0 {-cap:g}H{high:.1f}m0 {-cap:g}v{2 * cap:g}"
    return element("path", d=strokes, class_=kind)


def across(axis: Axis, *, top: float, bottom: float) -> list[Markup]:
    """Grid and labels of a horizontal axis; labels below."""
    marks: list[Markup] = []
    for tick in axis.ticks:
        x = axis.at(tick.value)
        marks += [line((x, top), (x, bottom), "grid"), words((x, bottom + 12), tick.label, "tick", anchor="middle")]
    return marks


def upward(axis: Axis, *, left: float, right: float) -> list[Markup]:
    """Grid and labels of a vertical axis; labels on the left."""
    marks: list[Markup] = []
    for tick in axis.ticks:
        y = axis.at(tick.value)
        marks += [line((left, y), (right, y), "grid"), words((left - 8, y), tick.label, "tick", anchor="end")]
    return marks
