"""One drawing of everything a lab tried, as an SVG file of its own: for a README, a chat, a slide."""

from knowngood.app.lab import Lab
from knowngood.config.lab import LabConfig
from knowngood.faces.report import waterfall
from knowngood.faces.report.chips import SIGNS
from knowngood.faces.report.forest import estimate, interval, reference_lines, shared_axis
from knowngood.faces.report.history import kept_steps, outcome
from knowngood.faces.report.marks import across, box, words
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.page import style
from knowngood.faces.report.words import clip, count, percent, span, title
from knowngood.reason.fold import LabState
from knowngood.reason.records import Trial

WIDTH = 880.0
EDGE = 20.0
PLOT_FROM, PLOT_TO = 330.0, 690.0
ROW = 24.0
HEADING = 30.0
AXIS = 34.0


def overview_svg(lab: Lab) -> str:
    """Draw the kept gains and the effects of all trials.

    Args:
        lab: Whose trials.

    Returns:
        An SVG document that follows the reader's light or dark scheme.
    """
    return draw_overview(lab.state, lab.config)


def draw_overview(state: LabState, config: LabConfig) -> str:
    """The same, from the values alone."""
    steps = kept_steps(state)
    trials = tuple(state.trials.values())
    marks: list[Node] = []
    y = EDGE
    if steps:
        marks.append(words((EDGE, y + 6), f"Kept gains in {title(config.objective.metric)}", "heading"))
        y += HEADING
        axis = waterfall.gain_axis(steps, start=PLOT_FROM, end=PLOT_TO)
        bottom = y + waterfall.depth(steps)
        marks += waterfall.axis_labels(axis, top=y, bottom=bottom)
        marks += waterfall.rows(steps, axis, top=y, left=EDGE, right=WIDTH - EDGE)
        y = bottom + AXIS + 6
    heading = (
        f"All {count(len(trials), 'trial')}: effect, 90% interval; worthwhile is {percent(config.worthwhile)}"
        if trials
        else "No trial yet"
    )
    marks.append(words((EDGE, y + 6), heading, "heading"))
    y += HEADING + 10
    if trials:
        marks += forest(trials, config.worthwhile, top=y)
        y += ROW * len(trials) + AXIS
    height = y + EDGE / 2
    told = "; ".join([*([waterfall.tell(steps)] if steps else []), *map(tell, trials)])
    drawing = element(
        "svg",
        element("title", "What was tried and what was kept", id="overview-title"),
        element("desc", told, id="overview-desc"),
        element("style", Markup(style("figure.css").replace(":root", ".figure"))),
        box(0, 0, WIDTH, height, "paper"),
        *marks,
        xmlns="http://www.w3.org/2000/svg",
        class_="figure",
        viewBox=f"0 0 {WIDTH:g} {height:g}",
        width=WIDTH,
        height=height,
        role="img",
        aria_labelledby="overview-title overview-desc",
    )
    return f"{drawing}\n"


def forest(trials: tuple[Trial, ...], worthwhile: float, *, top: float) -> list[Node]:
    """One row a trial on a shared axis."""
    axis = shared_axis([trial.verdict for trial in trials], worthwhile, start=PLOT_FROM, end=PLOT_TO)
    bottom = top + ROW * len(trials)
    marks: list[Node] = [
        *across(axis, top=top, bottom=bottom),
        *reference_lines(axis, worthwhile, top=top, bottom=bottom),
    ]
    for at, trial in enumerate(trials):
        marks += row(trial, y=top + ROW * (at + 0.5))
        found = interval(trial.verdict) if trial.verdict else None
        marks += estimate(axis, found, y=top + ROW * (at + 0.5), kind=outcome(trial)) if found else []
    return marks


def row(trial: Trial, *, y: float) -> list[Node]:
    """Name, verdict and effect of one trial, in words."""
    word = outcome(trial)
    name = clip(trial.hypothesis.name, 26)
    marks: list[Node] = [words((EDGE, y), trial.id, "muted number"), words((EDGE + 46, y), name)]
    marks.append(words((PLOT_FROM - 92, y), f"{SIGNS[word]} {word}", word))
    if trial.verdict and interval(trial.verdict):
        marks.append(words((WIDTH - EDGE - 112, y), percent(trial.verdict.estimate), "strong number", anchor="end"))
        shown = span(trial.verdict.low, trial.verdict.high)
        marks.append(words((WIDTH - EDGE, y), shown, "tick number", anchor="end"))
    return marks


def tell(trial: Trial) -> str:
    """One trial in words."""
    effect = f" {percent(trial.verdict.estimate)}" if trial.verdict and interval(trial.verdict) else ""
    return f"{trial.id} {trial.hypothesis.name}: {outcome(trial)}{effect}"
