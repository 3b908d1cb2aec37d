"""All trials in one table: verdict, effect, price; each row leads to its trial."""

from knowngood.faces.report.chips import chip
from knowngood.faces.report.contents import Contents
from knowngood.faces.report.forest import estimate, interval, ln, shared_axis
from knowngood.faces.report.history import outcome
from knowngood.faces.report.marks import line, words
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.scale import Axis
from knowngood.faces.report.words import clip, duration, percent, span
from knowngood.reason.records import Trial

WIDTH, ROW = 250.0, 26.0
EDGE = 18.0
REASONS = {
    "better": "",
    "undecided": "not proven",
    "not_worthwhile": "not worthwhile",
    "regression": "regression",
    "guard": "guard",
}


def overview(contents: Contents) -> Markup:
    """The table of all trials."""
    trials = tuple(contents.state.trials.values())
    if not trials:
        nothing = element("p", "No trial yet. ", element("code", "knowngood try FILE"), " runs one.", class_="muted")
        return element("section", element("h2", "Trials"), nothing, id="trials")
    worthwhile = contents.config.worthwhile
    axis = shared_axis([trial.verdict for trial in trials], worthwhile, start=EDGE, end=WIDTH - EDGE)
    head = element(
        "tr",
        *(element("th", name, scope="col") for name in ("Trial", "Verdict")),
        element("th", "Effect", scope="col", class_="number"),
        element("th", axis_head(axis), scope="col", class_="plot", aria_label="Effect with its interval, drawn"),
        element("th", "Price", scope="col", class_="number"),
    )
    body = [row(trial, axis, worthwhile) for trial in trials]
    note = (
        "Effects are oriented so that more is better. One axis for all: linear near zero, logarithmic far out. "
        f"Dashed: worthwhile, {percent(worthwhile)}."
    )
    return element(
        "section",
        element("h2", "Trials"),
        element(
            "div", element("table", element("thead", head), element("tbody", *body), class_="overview"), class_="scroll"
        ),
        element("p", note, class_="note"),
        id="trials",
    )


def row(trial: Trial, axis: Axis, worthwhile: float) -> Markup:
    """One trial."""
    word, verdict = outcome(trial), trial.verdict
    name = [
        element("a", element("span", trial.id, class_="id"), " ", clip(trial.hypothesis.name, 60), href=f"#{trial.id}")
    ]
    reason = REASONS.get(verdict.reason, "") if verdict and word != "undone" else ""
    effect: Node = element("span", "–", class_="muted")
    if verdict and interval(verdict):
        effect = [
            element("b", percent(verdict.estimate)),
            " ",
            element("span", span(verdict.low, verdict.high), class_="muted"),
        ]
    launches = len(trial.launches) + len(trial.failures)
    minutes = duration(trial.ended_at - trial.started_at) if trial.ended_at is not None else "not ended"
    return element(
        "tr",
        element("th", name, scope="row"),
        element("td", chip(word), " ", element("small", reason) if reason else None, class_="nowrap"),
        element("td", effect, class_="number nowrap"),
        element("td", row_drawing(trial, axis, worthwhile), class_="plot"),
        element("td", str(launches), element("small", f" · {minutes}"), class_="number nowrap"),
    )


def row_drawing(trial: Trial, axis: Axis, worthwhile: float) -> Markup:
    """Interval and estimate on the shared axis; empty but for its lines where there are no numbers."""
    found = interval(trial.verdict) if trial.verdict else None
    marks: list[Node] = [line((axis.at(tick.value), 0), (axis.at(tick.value), ROW), "grid") for tick in axis.ticks]
    marks.append(line((axis.at(0), 0), (axis.at(0), ROW), "zero"))
    marks.append(line((axis.at(ln(worthwhile)), 0), (axis.at(ln(worthwhile)), ROW), "worth"))
    if found:
        marks += estimate(axis, found, y=ROW / 2, kind=outcome(trial))
    return strip(marks, ROW)


def axis_head(axis: Axis) -> Markup:
    """Labels of the shared axis."""
    return strip([words((axis.at(tick.value), 10), tick.label, "tick", anchor="middle") for tick in axis.ticks], 20)


def strip(marks: list[Node], height: float) -> Markup:
    """A drawing inside a table, which the table's own text already tells."""
    return element(
        "svg",
        *marks,
        class_="figure",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        width=WIDTH,
        height=height,
        aria_hidden="true",
    )
