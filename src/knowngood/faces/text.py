"""Views as text for people: plain lines, aligned columns, colour where the terminal has it."""

import math
from collections.abc import Sequence

import click

from knowngood.faces.views import (
    BaselineView,
    CaptureView,
    DemoView,
    DiagnosisView,
    DoctorView,
    DryRunView,
    FilesView,
    FindingsView,
    JudgeView,
    PlanView,
    RecoverView,
    StatusView,
    TrialView,
    TriesView,
    View,
)
from knowngood.model.verdict import Verdict

COLOURS = {
    "keep": "green",
    "kept": "green",
    "revert": "yellow",
    "reverted": "yellow",
    "inconclusive": "cyan",
    "undecided": "cyan",
    "void": "magenta",
    "dead": "red",
}


def render(view: View) -> str:
    """A view as lines of text."""
    match view:
        case StatusView():
            return status(view)
        case TrialView():
            return trial(view)
        case TriesView():
            return tries(view)
        case BaselineView():
            return baseline(view)
        case PlanView():
            return plan(view)
        case FindingsView():
            return findings(view)
        case RecoverView():
            return "\n".join(view.did) or "the host is at known-good; nothing was left over"
        case DiagnosisView():
            return diagnosis(view)
        case JudgeView():
            return ruling(view)
        case FilesView():
            return "\n".join((*view.files, view.message) if view.message else view.files)
        case DryRunView():
            return dry_run(view)
        case DemoView():
            return demo(view)
        case DoctorView():
            return doctor(view)
        case CaptureView():
            return capture(view)
        case _:
            return view.message


def paint(word: str) -> str:
    """A verdict's word in its colour."""
    return click.style(word, fg=COLOURS.get(word), bold=True)


def percent(value: float | None) -> str:
    """A ratio minus one as a signed percentage; a dash for None."""
    if value is None:
        return "–"
    if value >= 1:
        return f"×{1 + value:.2f}"
    return f"{value:+.1%}"


def columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Rows as aligned columns; the last column is ragged."""
    if not rows:
        return ""
    plain = [[click.unstyle(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in plain) for at in range(len(rows[0]))]
    lines: list[str] = []
    for row, bare in zip(rows, plain, strict=True):
        cells = [cell + " " * (width - len(naked)) for cell, naked, width in zip(row, bare, widths, strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def effect(verdict: Verdict) -> str:
    """The estimate with its interval."""
    if verdict.estimate is None:
        return ""
    return f"{percent(verdict.estimate)} [{percent(verdict.low)}, {percent(verdict.high)}]"


def status(view: StatusView) -> str:
    """Is the host at known-good?"""
    now = view.status
    if now.running:
        head = click.style("busy", fg="yellow", bold=True) + f": {now.running}"
    elif now.known_good:
        head = click.style("known-good", fg="green", bold=True)
    else:
        edits = "`knowngood capture` makes an experiment of edits by hand"
        way = edits if now.drift and not now.left_over else "run `knowngood recover`"
        head = click.style("not at known-good", fg="red", bold=True) + f": {way}"
    kept = f", kept: {', '.join(now.kept)}" if now.kept else ""
    about = f"baseline {now.baseline}{kept}, {now.trials} trials" if now.baseline else "no baseline yet"
    lines = [head, about, *(f"left over: {line}" for line in now.left_over)]
    lines += [f"drift: {path} is not what the baseline says; it was left alone" for path in now.drift]
    lines += [now.drift_diff.rstrip()] if now.drift_diff else []
    return "\n".join(lines)


def headline(view: TrialView) -> tuple[str, str, str, str, str]:
    """One row of a list of trials."""
    verdict = view.verdict
    word = "running" if verdict is None else "undone" if view.undone else verdict.decision
    reason = verdict.reason.replace("_", " ") if verdict and verdict.decision != "keep" else ""
    shown = effect(verdict) if verdict else ""
    return view.id, view.name, paint(word), reason, shown


def tries(view: TriesView) -> str:
    """What came out of each experiment file."""
    lines = [columns([headline(one) for one in view.trials])] if view.trials else []
    lines += [f"{one.id}: {one.verdict.why}" for one in view.trials if one.verdict is not None]
    lines += [click.style("not tried: ", fg="red") + error for error in view.errors]
    lines.append(f"the host is at known-good, baseline {view.baseline}")
    return "\n".join(lines)


def trial(view: TrialView) -> str:
    """One trial with its evidence."""
    lines = ["  ".join(cell for cell in headline(view) if cell), f"claim: {view.claim}"]
    if view.because:
        lines.append(f"because: {view.because}")
    lines += [f"member: {member}" for member in view.members] or ["member: none (a null change)"]
    if view.verdict is not None:
        lines.append(f"verdict: {view.verdict.why}")
        lines.append(f"{view.verdict.pairs} pairs; {percent(view.mde)} was detectable with 80 % probability")
    if view.diagnosis is not None and view.diagnosis.line:
        found = view.diagnosis
        lines.append(f"cause: {found.cause}{' (dead end)' if found.hard else ''}, log line {found.line_number}:")
        lines.append(f"  {found.line.strip()}")
        lines += [f"remedy: {found.remedy}"] if found.remedy else []
        lines += [f"guilty: {found.member}"] if found.member else []
    lines += [f"proof: {proof.member}: {proof.evidence}" for proof in view.proofs]
    if view.answers is not None:
        seen = view.answers
        lines.append(
            f"answers: {seen.same} of {seen.asked} the same, {seen.near_ties} part at a near tie, {seen.wrong} wrong; "
            f"a share of {seen.detects:.0%} wrong would have shown"
        )
    rows = [
        (
            str(row.index + 1),
            row.arm,
            f"pair {row.pair + 1}",
            f"{row.value:.4g}",
            f"ready {row.ready_s:.1f} s",
            f"foreign {row.foreign_cores:.2f} cores" + ("" if row.counted else " (does not count)"),
        )
        for row in view.launches
    ]
    return "\n".join([*lines, columns(rows, indent="  ")]).rstrip()


def baseline(view: BaselineView) -> str:
    """The known-good state and its noise floor."""
    values = ", ".join(f"{value:.4g}" for value in view.values)
    return "\n".join(
        (
            f"baseline {view.baseline.version}: {view.metric} {values}",
            f"two launches of the same thing differ by {percent(view.noise)[1:]} (one standard deviation)",
            f"a trial keeps an effect of {percent(view.mde)} with 80 % probability",
        )
    )


def plan(view: PlanView) -> str:
    """Hypotheses, the most promising first."""
    rows = [
        (
            one.trial or "–",
            one.name,
            paint(one.state),
            percent(one.effect) if one.trial else f"predicted {percent(one.gain)}",
            one.why or one.claim,
        )
        for one in view.hypotheses
    ]
    return columns(rows) or "no experiment files yet: put one into experiments/"


def findings(view: FindingsView) -> str:
    """What was learned."""
    lines: list[str] = []
    for one in view.findings:
        scope = ", ".join(f"{name} {value}" for name, value in one.scope.items())
        lines.append(f"{one.id}  {paint(one.sign.replace('_', ' '))}  {percent(one.effect)}  {one.claim}")
        lines.append(f"       holds for {scope}; evidence {', '.join(one.evidence)}")
        lines += [f"       log: {one.quote.strip()}"] if one.quote else []
        lines += [f"       re-opens with {one.reopens}"] if one.reopens else []
    return "\n".join(lines) or "nothing was learned yet"


def diagnosis(view: DiagnosisView) -> str:
    """Root cause of a log."""
    if view.abstained:
        lines = ["no cause found that could be stood for"]
        lines += [f"nearest: line {view.line_number}: {view.line.strip()}"] if view.line else []
        return "\n".join([*lines, *([f"next: {view.remedy}"] if view.remedy else [])])
    kind = "hard: no setting changes it" if view.hard else "fixable"
    return "\n".join(
        (
            f"{view.cause} in {view.component} ({kind}), confidence {view.confidence:.0%}",
            f"line {view.line_number}: {view.line.strip()}",
            f"remedy: {view.remedy}",
        )
    )


def ruling(view: JudgeView) -> str:
    """Verdict on runs that were made elsewhere."""
    found = view.ruling
    asked = found.question
    if found.verdict is not None:
        lines = [f"{paint(found.verdict.decision)}  {effect(found.verdict)}", f"verdict: {found.verdict.why}"]
    else:
        so_far = [percent(value) for value in found.effect]
        lines = [paint("undecided") + ": no verdict yet" + ("; so far {} [{}, {}]".format(*so_far) if so_far else "")]
    lines.append(
        f"{asked.metric}, {asked.direction} is better, worthwhile {percent(asked.worthwhile)}, {asked.profile}; "
        f"{found.pairs} pairs, {len(found.noise)} A/A pairs; {percent(found.mde)} is kept with 80 % probability"
    )
    lines += [f"problem: {problem}" for problem in found.problems]
    lines += [f"needed: {need}" for need in found.needed]
    rows = [(one.use, one.title, f"{one.value:.4g}", f"median of {len(one.values)}") for one in found.launches]
    return "\n".join([*lines, columns(rows, indent="  ")]).rstrip()


def dry_run(view: DryRunView) -> str:
    """What a trial would do."""
    lines = [f"{view.name} would start: {' '.join(view.argv)}"]
    lines += [f"with {name}={value}" for name, value in view.env.items()]
    lines += [f"set {one}" for one in view.settings]
    lines += [diff.diff.rstrip() for diff in view.diffs]
    lines.append(f"it keeps an effect of {percent(view.mde)} with 80 % probability")
    if not math.isnan(view.worst_min):
        lines.append(f"about {view.expected_min:.0f} min if the change does nothing, at most {view.worst_min:.0f} min")
    return "\n".join(lines)


def capture(view: CaptureView) -> str:
    """What was edited by hand, as an experiment."""
    lines = [view.diff.rstrip()] if view.diff else []
    lines += [f"left as it is: {one}" for one in view.left_out]
    lines += view.files
    lines += [view.message] if view.message else []
    if view.put_back:
        lines.append(f"the host is back at known-good; next: knowngood try experiments/{view.name}.toml")
    return "\n".join(lines)


def demo(view: DemoView) -> str:
    """What the demo showed."""
    lines = ["", click.style("Trials", bold=True), columns([headline(one) for one in view.trials], indent="  ")]
    lines += [f"  {one.id}: {one.verdict.why}" for one in view.trials if one.verdict and one.verdict.decision == "void"]
    lines += [f"  tried again: {view.refused}"] if view.refused else []
    lines += ["", click.style("Plan", bold=True), plan(view.plan)]
    lines += ["", click.style("Findings", bold=True), findings(view.findings)]
    lines += ["", click.style("Host", bold=True), status(view.status)]
    lines += [f"  {one.path}  sha256 {one.sha256[:16]}… as recorded" for one in view.files if one.sha256]
    if view.quick:
        lines.append(
            "Quick: fewer and shorter runs, so small effects stay undecided; the rate of false keeps is the same."
        )
    return "\n".join([*lines, "", f"report: {view.report}", f"lab: {view.lab}", f"{view.minutes:.1f} minutes"])


def doctor(view: DoctorView) -> str:
    """What this host is and what can be detected on it."""
    lines = [columns(list(view.facts.items()))]
    quiet = "quiet enough" if view.foreign_cores < 0.25 else "busy"  # noqa: PLR2004  (the lab file's default limit)
    lines.append(f"others use {view.foreign_cores:.2f} cores: {quiet}")
    lines += [f"  {one}" for one in view.busiest]
    for profile, mde in view.mde.items():
        price = view.worst_min.get(profile, math.nan)
        lines.append(f"{profile}: an effect of {percent(mde)} is kept with 80 % probability, at most {price:.0f} min")
    if not view.mde:
        lines.append("what can be detected: unknown before `knowngood baseline`")
    lines += [click.style("problem: ", fg="red") + problem for problem in view.problems]
    return "\n".join(line for line in lines if line)
