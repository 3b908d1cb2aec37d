"""What ``knowngood explain`` shows: the view, its text, and the ladder as files."""

from collections.abc import Sequence
from pathlib import Path

import click

from knowngood.errors import UsageError
from knowngood.faces.layout import columns
from knowngood.faces.views import View
from knowngood.model.steptime import Facts
from knowngood.reason.steptime.budget import Budget
from knowngood.reason.steptime.explain import Economics, Explanation, Span, Supposed
from knowngood.reason.steptime.ladder import RANKS, Rung, experiment_text

BAR = 30
COLOURS = {"measured": "green", "derived": "green", "modelled": "cyan", "assumed": "yellow"}


class ExplainView(View, frozen=True, kw_only=True, tag="knowngood/explain/1"):
    """Where a step's time goes, and what to try next.

    Attributes:
        facts: What was known, given or read.
        explanation: What follows from it.
        files: Experiment files written.
    """

    facts: Facts
    explanation: Explanation
    files: tuple[str, ...] = ()


def write_ladder(explanation: Explanation, folder: Path) -> tuple[str, ...]:
    """Write each experiment of the ladder as a file, numbered in order.

    Raises:
        UsageError: A file is in the way, or cannot be written.
    """
    experiments = [rung for rung in explanation.ladder if rung.members]
    paths = [folder / f"{number:02}-{rung.name}.toml" for number, rung in enumerate(experiments, start=1)]
    there = next((path for path in paths if path.exists()), None)
    if there is not None:
        raise UsageError(f"{there} is there already", hint="name another folder for --write")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, rung in zip(paths, experiments, strict=True):
            path.write_text(experiment_text(rung), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the ladder cannot be written: {error}", hint="name another folder for --write") from error
    return tuple(map(str, paths))


def explanation_text(view: ExplainView) -> str:
    """All sections that have something to say."""
    shown = view.explanation
    sections = [
        budget_lines(shown.budget, shown.economics),
        titled("Arithmetic", [quantity_lines(shown)]),
        titled("Speculation", economics_lines(shown.economics)),
        titled("What if", [f"  {supposed_line(shown.supposed)}"] if shown.supposed else []),
        titled("Does not fit", contradiction_lines(shown)),
        titled("Collectives across ranks", collective_lines(shown)),
        titled("Try next, the cheapest first", ladder_lines(shown.ladder)),
        titled("Read", [f"  {note}" for note in shown.notes]),
        titled("Unknown", [f"  {one}" for one in shown.missing]),
        list(view.files),
    ]
    return "\n\n".join("\n".join(lines) for lines in sections if lines)


def titled(title: str, lines: Sequence[str]) -> list[str]:
    """Lines under a title; nothing without lines."""
    kept = [line for line in lines if line]
    return [click.style(title, bold=True), *kept] if kept else []


def budget_lines(budget: Budget | None, economics: Economics | None) -> list[str]:
    """The waterfall, and the principal cost with its bound."""
    if budget is None:
        return ["no length of a step is known yet"]
    name = "A round of speculation" if budget.step == "verify" else "A decode step"
    rows: list[tuple[str, ...]] = []
    before = 0.0
    for line in budget.lines:
        start, length = round(before * BAR), max(1, round(line.share * BAR))
        bar = " " * start + "█" * min(length, BAR - min(start, BAR - 1))
        confidence = click.style(line.confidence, fg=COLOURS[line.confidence])
        rows.append((line.what, f"{line.ms:.1f} ms", f"{line.share:.0%}", bar.ljust(BAR), confidence, line.how))
        before += line.share
    lines = [click.style(f"{name}: {budget.ms:.1f} ms", bold=True), columns(rows, indent="  ")]
    if budget.principal is not None:
        rate = f", {economics.tok_s.high * budget.bound:.0f} tok/s at most" if economics else ""
        bound = "no bound" if budget.bound == float("inf") else f"at most × {budget.bound:.2f}"
        lines.append(f"principal cost: {budget.principal.what}, {budget.principal.ms:.1f} ms; without it {bound}{rate}")
    return lines


def quantity_lines(shown: Explanation) -> str:
    """The arithmetic."""
    rows = [
        (
            one.name,
            f"{one.value:.4g} {one.unit}".strip(),
            click.style(one.confidence, fg=COLOURS[one.confidence]),
            one.how,
        )
        for one in shown.quantities
    ]
    return columns(rows, indent="  ")


def economics_lines(shown: Economics | None) -> list[str]:
    """Whether speculation pays, and from where on."""
    if shown is None:
        return []
    source = "measured" if shown.tokens_given else "from rate and length of a round"
    now = click.style(
        "pays" if shown.speedup.low > 1 else "does not pay" if shown.speedup.high < 1 else "may pay", bold=True
    )
    rates = f"{span(shown.tok_s, '.0f')} tok/s with it, {shown.base_tok_s:.0f} without"
    lines = [
        f"  it {now}: {rates} (× {span(shown.speedup, '.2f')})",
        f"  a round of {shown.drafts} drafts yields {span(shown.tokens, '.2f')} tokens, {source}",
    ]
    ends = shown.break_even
    needed = span(Span(low=ends[0].tokens, high=ends[1].tokens), ".2f")
    lines.append(f"  it pays from {needed} tokens a round on{acceptance_words(ends[0].acceptance, ends[1].acceptance)}")
    if not ends[0].possible:
        lines.append(f"  {shown.drafts} drafts cannot yield that many: hopeless until verify is cheaper")
    if shown.deeper.acceptance is not None:
        lines.append(f"  with {shown.drafts + 1} drafts in the same time: acceptance {shown.deeper.acceptance:.2f}")
    limits = span(Span(low=min(one.allreduce_us for one in ends), high=max(one.allreduce_us for one in ends)), ".0f")
    lines.append(f"  at these tokens it pays while an all-reduce of verify takes less than {limits} µs")
    worth = ", ".join(f"{one.quantity} {one.gain:+.1%}" for one in shown.influences)
    lines += [f"  a tenth better is worth: {worth}", *(f"  {supposed_line(row)}" for row in shown.supposed)]
    return lines


def acceptance_words(low: float | None, high: float | None) -> str:
    """Acceptance that break-even needs."""
    if low is None:
        return ""
    return f": acceptance {low:.2f}" + (f" to {high:.2f}" if high is not None and high - low > 0.005 else "")  # noqa: PLR2004


def supposed_line(row: Supposed | None) -> str:
    """Rates under a supposition."""
    if row is None:
        return ""
    pays = "pays" if row.pays else "does not pay"
    return (
        f"{row.what}: {row.saved_ms:.1f} ms saved, {span(row.tok_s, '.0f')} tok/s with speculation, "
        f"{row.base_tok_s:.0f} without: {pays}"
    )


def contradiction_lines(shown: Explanation) -> list[str]:
    """What does not fit."""
    lines: list[str] = []
    for one in shown.contradictions:
        colour = "red" if one.kind == "impossible" else "yellow"
        lines += [f"  {click.style(one.kind, fg=colour)}: {one.says}", f"    {one.means}"]
    return lines


def collective_lines(shown: Explanation) -> list[str]:
    """Collectives, with transport and waiting apart."""
    rows = [
        (
            one.category,
            f"{one.count:.0f} a step",
            f"mean {one.mean_us:.0f} µs",
            f"p50 {one.p50_us:.0f}",
            f"p95 {one.p95_us:.0f}",
            "" if one.wait_us is None else f"transport at most {one.transport_us:.0f} µs, waiting {one.wait_us:.0f} µs",
        )
        for one in shown.collectives
    ]
    return [columns(rows, indent="  ")]


def ladder_lines(ladder: Sequence[Rung]) -> list[str]:
    """The ladder, by how dear a rung is."""
    lines: list[str] = []
    for rung in ladder:
        predicted = ""
        if rung.predicts is not None:
            predicted = f"  predicted {rung.predicts[0]:+.0%} to {rung.predicts[1]:+.0%}"
        lines.append(f"  {click.style(rung.name, fg='cyan')} ({RANKS[rung.rank]}): {rung.claim}{predicted}")
        if rung.command:
            lines.append(f"    $ {rung.command}")
        lines += [f"    risk: {one}" for one in rung.risk[:2]]
    return lines


def span(values: Span, form: str) -> str:
    """One number, or two."""
    low, high = format(values.low, form), format(values.high, form)
    return low if low == high else f"{low} to {high}"
