"""What to try next, and what was learned."""

from collections.abc import Collection

from knowngood.faces.report.chips import chip, log, table
from knowngood.faces.report.contents import Contents
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.words import clip, percent
from knowngood.model.finding import Finding
from knowngood.reason.rank import Ranked

LONGEST_LINE = 600
WORDS = {"impossible": "dead end", "no_effect": "no effect"}


def plan_chapter(contents: Contents) -> Markup:
    """Hypotheses, the most promising first."""
    if not contents.plan:
        nothing = element("p", "No experiment file yet: put one into experiments/.", class_="muted")
        return element("section", element("h2", "Plan"), nothing, id="plan")
    head = ("#", "Hypothesis", "State", "#Effect", "#Score", "Why")
    rows = [plan_row(at, one) for at, one in enumerate(contents.plan, start=1)]
    note = "Score: predicted gain × chance ÷ cost; comparable within this table only. Open ones first."
    return element(
        "section", element("h2", "Plan"), table(head, rows, kind="plan"), element("p", note, class_="note"), id="plan"
    )


def plan_row(at: int, one: Ranked) -> list[Node]:
    """One hypothesis."""
    name: Node = element("b", one.name)
    trial: Node = [" ", element("a", one.trial, href=f"#{one.trial}", class_="id")] if one.trial else None
    is_open = one.state in {"open", "waiting"}
    effect: Node = "–"
    if one.effect is not None and one.state != "void":
        effect = percent(one.effect)
    elif is_open:
        effect = [percent(one.gain), element("small", " predicted")]
    return [
        str(at),
        [name, trial, element("div", clip(one.claim, 300), class_="muted")],
        chip(one.state),
        element("span", effect, class_="nowrap"),
        f"{one.score:.3f}" if is_open else "",
        element("span", clip(one.why, 300), class_="wrap"),
    ]


def findings_chapter(contents: Contents) -> Markup:
    """What was learned: dead ends first, then the newest."""
    found = sorted(contents.state.findings, key=lambda one: (one.sign == "impossible", one.id), reverse=True)
    inside: Node = [finding(one, contents.state.trials) for one in found]
    if not found:
        inside = element("p", "Nothing was learned yet.", class_="muted")
    return element("section", element("h2", "Findings"), inside, id="findings")


def finding(one: Finding, trials: Collection[str]) -> Markup:
    """One piece of knowledge with its scope; evidence that is a trial leads to it."""
    scope = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in one.scope.items()) or "this host"
    evidence: list[Node] = []
    for name in one.evidence:
        link = element("a", name, href=f"#{name}", class_="id")
        evidence += [" ", link if name in trials else element("span", name, class_="id")]
    return element(
        "div",
        element(
            "p",
            element("span", one.id, class_="id"),
            " ",
            chip(WORDS.get(one.sign, one.sign)),
            " ",
            element("b", percent(one.effect)) if one.effect is not None else None,
            " ",
            one.claim,
        ),
        element("p", f"Holds for {scope}. Evidence:", evidence, class_="note"),
        log(clip(one.quote.strip(), LONGEST_LINE)) if one.quote.strip() else None,
        element("p", element("b", "Re-opens with "), one.reopens, ".") if one.reopens else None,
        class_="finding",
        id=one.id,
    )
