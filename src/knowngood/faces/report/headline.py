"""The first screen: known-good now against the original baseline."""

from collections import Counter

from knowngood.faces.report import waterfall
from knowngood.faces.report.chips import captioned, chip, facts
from knowngood.faces.report.contents import Contents
from knowngood.faces.report.history import OUTCOMES, Progress, kept_steps, outcome, progress
from knowngood.faces.report.marks import figure
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.words import count, duration, moment, percent, quantity, title

FALL_WIDTH = 960.0
BARS_FROM, BARS_TO = 300.0, 880.0


def headline(contents: Contents) -> Markup:
    """What was reached, in how many trials, on which host."""
    state, metric = contents.state, contents.metric
    reached = progress(state)
    kept = len(kept_steps(state))
    if state.baseline is None:
        big, small = "No baseline yet", "Run knowngood baseline: it measures the known-good state and its noise."
    elif not kept:
        big, small = "Nothing kept yet", "Known-good is the original baseline."
    else:
        big = percent(reached.gain)
        worse = "less" if contents.config.direction == "lower" else "more"
        over = f"{title(metric)} ({worse} is better) over the original baseline"
        small = f"{over}: {count(kept, 'kept change')}, effects shrunk"
    return element(
        "section",
        element("p", element("strong", big, class_="big"), element("span", small, class_="under"), class_="result"),
        facts(
            [*values(contents, reached), ("Trials", trials_by_verdict(contents)), ("Host", host(contents))], kind="key"
        ),
        facts(
            [(name.replace("_", " "), value) for name, value in state.baseline.facts.items()] if state.baseline else []
        ),
        id="headline",
        aria_label="Headline",
    )


def values(contents: Contents, reached: Progress) -> list[tuple[str, Node]]:
    """The objective's metric then and now."""
    metric = contents.metric
    if reached.original is None:
        return []
    first = f"median of {count(reached.original_launches, 'launch')}"
    shown: list[tuple[str, Node]] = [("Original baseline", two_lines(quantity(reached.original, metric), first))]
    if not kept_steps(contents.state):
        return shown
    factor = 1 + reached.gain
    expected = reached.original / factor if contents.config.direction == "lower" else reached.original * factor
    now = two_lines("≈ " + quantity(expected, metric), "original × proven gains")
    if reached.measured is not None:
        since = f"measured since: {quantity(reached.measured, metric)}, median of "
        now = [*now, element("small", since + count(reached.measured_launches, "launch"))]
    return [*shown, ("Known-good now", now)]


def two_lines(strong: str, small: str) -> list[Node]:
    """A figure and what it is."""
    return [element("strong", strong), element("small", small)]


def trials_by_verdict(contents: Contents) -> Node:
    """How many trials ended how, and what they cost."""
    trials = contents.state.trials.values()
    numbers = Counter(outcome(trial) for trial in trials)
    spent = sum(trial.ended_at - trial.started_at for trial in trials if trial.ended_at is not None)
    launches = sum(len(trial.launches) + len(trial.failures) for trial in trials)
    chips = [[element("b", str(numbers[word])), " ", chip(word)] for word in OUTCOMES if numbers[word]]
    price = f"{count(launches, 'launch')}, {duration(spent)}" if trials else ""
    return [
        element("strong", str(len(trials))),
        element("span", *(element("span", one, class_="tally") for one in chips)),
        element("small", price),
    ]


def host(contents: Contents) -> Node:
    """Whether the host is at known-good."""
    state = contents.host
    good = "✓ at known-good" if contents.state.baseline else "✓ nothing left over"
    words = {True: good, False: "✗ not at known-good", None: "? not looked at"}[state.known_good]
    tone = {True: "keep", False: "bad", None: "open"}[state.known_good]
    version = f"baseline {contents.state.baseline.version}" if contents.state.baseline else "no baseline"
    when = f", {moment(contents.state.at)}" if contents.state.at else ""
    return [
        element("strong", words, class_=f"tone {tone}"),
        *(element("small", line) for line in state.lines),
        element("small", contents.config.host.address + ", " + version + when),
    ]


def lowered(text: str) -> str:
    """Text for the middle of a sentence: acronyms stay as they are."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def waterfall_chapter(contents: Contents) -> Markup | None:
    """The kept gains, one after the other; None if nothing is kept."""
    steps = kept_steps(contents.state)
    if not steps:
        return None
    axis = waterfall.gain_axis(steps, start=BARS_FROM, end=BARS_TO)
    bottom = 4 + waterfall.depth(steps)
    drawing = figure(
        *waterfall.axis_labels(axis, top=4, bottom=bottom),
        *waterfall.rows(steps, axis, top=4, left=0, right=FALL_WIDTH),
        name="waterfall",
        width=FALL_WIDTH,
        height=bottom + 22,
        title="Kept gains, from the original baseline to now",
        told=waterfall.tell(steps),
    )
    both = waterfall.combined(steps)
    total = (
        f" All of them together: {percent(steps[-1].after)} {both} if the intervals are independent." if both else ""
    )
    note = (
        f"Each bar is the effect of one keep on the {lowered(title(contents.metric))}, more is better, "
        f"shrunk towards zero because winners are lucky; whiskers are its 90% interval.{total}"
    )
    return element(
        "section",
        element("h2", "Kept gains"),
        captioned(drawing, "From the original baseline to now", note),
        id="gains",
    )
