"""Views as text for people: plain lines, aligned columns, colour where the terminal has it."""

import math

import click

from knowngood.faces.isolation import IsolationView, OutlineView
from knowngood.faces.layout import columns, percent
from knowngood.faces.races import RacePlanView, RaceView, plan_text, race_text
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
    LaunchRow,
    PlanView,
    RecoverView,
    StatusView,
    TrialView,
    TriesView,
    View,
)
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.isolation import Culprit
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
            return recovered(view)
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
        case IsolationView():
            return isolation(view)
        case OutlineView():
            return outline(view)
        case RaceView():
            return race_text(view, "  ".join(cell for cell in headline(view.trial) if cell) if view.trial else "")
        case RacePlanView():
            return plan_text(view)
        case _:
            return view.message


def paint(word: str) -> str:
    """A verdict's word in its colour."""
    return click.style(word, fg=COLOURS.get(word), bold=True)


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
    lines += [alarm(one) for one in now.alarms]
    return "\n".join(lines)


def alarm(text: str) -> str:
    """What the engine's checks of itself found."""
    return click.style("alarm: ", fg="red", bold=True) + text


def recovered(view: RecoverView) -> str:
    """What bringing the host back took, and how the host is now."""
    lines = list(view.did) or ["nothing was left over"]
    if view.memory:
        return "\n".join([*lines, alarm(f"{view.memory}; the host was brought back by its own journal, keeps stay")])
    lines += [f"drift: {path} is not what the baseline says; it was left alone" for path in view.drift]
    lines.append("the host is at known-good" if view.known_good else click.style("not at known-good", fg="red"))
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
    for one in view.trials:
        lines += [f"{one.id}: {line}" for line in guilt(one.diagnosis)] if one.diagnosis is not None else []
    lines += [f"which member did it: {one.next}" for one in view.trials if one.next]
    lines += [click.style("not tried: ", fg="red") + error for error in view.errors]
    lines += [f"{one.id} {one.name}: {one.verdict.why}" for one in view.checks if one.verdict is not None]
    lines += [alarm(one) for one in view.alarms]
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
        lines += guilt(found)
    lines += [f"which member did it: {view.next}"] if view.next else []
    lines += [f"proof: {proof.member}: {proof.evidence}" for proof in view.proofs]
    if view.answers is not None:
        seen = view.answers
        lines.append(
            f"answers: {seen.same} of {seen.asked} the same, {seen.near_ties} part at a near tie, {seen.wrong} wrong; "
            f"a share of {seen.detects:.0%} wrong would have shown"
        )
    if view.accuracy is not None:
        told = view.accuracy
        lines.append(
            f"accuracy: {told.right} of {told.items} items right, {told.base_right} on the baseline; "
            f"{told.lost} lost, {told.gained} gained"
        )
    rows = [
        (
            str(row.index + 1),
            row.arm,
            f"pair {row.pair + 1}",
            f"{row.value:.4g}",
            f"ready {row.ready_s:.1f} s",
            memory(row),
            f"foreign {row.foreign_cores:.2f} cores" + ("" if row.counted else " (does not count)"),
        )
        for row in view.launches
    ]
    return "\n".join([*lines, columns(rows, indent="  ")]).rstrip()


def memory(row: LaunchRow) -> str:
    """Memory of a launch, and how well its speculation did."""
    parts = [f"{row.rss_mb:,.0f} MB"] if row.rss_mb else []
    parts += [f"{row.gpu_mb:,.0f} MB on accelerators"] if row.gpu_mb is not None else []
    parts += [f"acceptance {row.acceptance_length:.2f}"] if row.acceptance_length is not None else []
    return ", ".join(parts)


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
    lines = [columns(rows) or "no experiment files yet: put one into experiments/"]
    return "\n".join([*lines, *(f"next: {one}" for one in view.next)])


def findings(view: FindingsView) -> str:
    """What was learned."""
    lines: list[str] = []
    for one in view.findings:
        scope = ", ".join(f"{name} {value}" for name, value in one.scope.items())
        lines.append(f"{one.id}  {paint(one.sign.replace('_', ' '))}  {percent(one.effect)}  {one.claim}")
        lines.append(f"       holds for {scope}; evidence {', '.join(one.evidence)}")
        lines += [f"       log: {one.quote.strip()}"] if one.quote else []
        lines += [f"       within {one.within}"] if one.within else []
        lines += [f"       re-opens with {one.reopens}"] if one.reopens else []
    return "\n".join(lines) or "nothing was learned yet"


def guilt(found: Diagnosis) -> list[str]:
    """Which member is guilty, what speaks for it, and what to do next."""
    lines = [f"guilty: {found.member}" + (f", {found.sure:.0%} sure" if found.sure else "")] if found.member else []
    lines += [f"  {one.member}: {one.sure:.0%}, {one.evidence}" for one in found.suspects]
    return [*lines, *(f"next: {one}" for one in found.next)]


def diagnosis(view: DiagnosisView) -> str:
    """Root cause of a log: the decisive line among its neighbours, what to do, and what else it could be."""
    if view.abstained:
        what = "the cause is not in this log" if view.cause == "undetermined_process_death" else "no cause found"
        lines = [f"{what}: abstained", *quoted(view), f"next: {view.remedy}"]
    else:
        kind = "hard: no setting changes it" if view.hard else "fixable"
        lines = [f"{view.cause} in {view.component} ({kind}), confidence {view.confidence:.0%}", *quoted(view)]
        lines += [f"remedy: {view.remedy}"]
        lines += [f"scope: {view.scope}"] if view.scope else []
        lines += [f"try again {view.retest}"] if view.retest else []
    about = [f"said {view.times} times"] if view.times > 1 else []
    about += [f"by {view.process}"] if view.process else []
    about += [f"the log holds {view.starts} starts of the server"] if view.starts > 1 else []
    lines += [", ".join(about)] if about else []
    for one in view.others:
        lines.append(f"not chosen, {one.why_not}: {one.cause}, line {one.line_number}: {one.line.strip()}")
    return "\n".join(lines)


def quoted(view: DiagnosisView) -> list[str]:
    """The decisive line with its neighbours, numbered."""
    numbered = enumerate(view.window, start=view.window_start)
    return [f"{'>' if number == view.line_number else ' '} {number}: {line}" for number, line in numbered]


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
    lines += [f"watched: {name}, now {now}" for name, now in view.watched.items()]
    lines += [f"not to be seen here: {', '.join(view.unwatched)}"] if view.unwatched else []
    for profile, mde in view.mde.items():
        price = view.worst_min.get(profile, math.nan)
        lines.append(f"{profile}: an effect of {percent(mde)} is kept with 80 % probability, at most {price:.0f} min")
    if not view.mde:
        lines.append("what can be detected: unknown before `knowngood baseline`")
    lines += [click.style("problem: ", fg="red") + problem for problem in view.problems]
    return "\n".join(line for line in lines if line)


def isolation(view: IsolationView) -> str:
    """Which member of a change set did it."""
    state = f"{len(view.culprits)} of {len(view.items)} items left out" if view.done else "not finished"
    lines = [f"{view.id}  {view.name}  {state} after {len(view.launches)} launches"]
    lines += [blamed(one) for one in view.culprits]
    if view.done and not view.culprits:
        lines.append("the whole set runs: nothing is to be left out")
    lines += [f"survives: {member}" for member in view.survivors if view.culprits]
    rows = [
        (
            str(row.index + 1),
            f"items {', '.join(str(item + 1) for item in row.items) or 'none'}",
            row.outcome + ("" if row.counted else " (does not count)"),
            row.why if row.value is None else f"{row.value:.4g}",
        )
        for row in view.launches
    ]
    named = [(f"item {number}", " + ".join(names)) for number, names in enumerate(view.items, 1)]
    lines += [columns(named, indent="  "), columns(rows, indent="  ")]
    lines += ["survivors against the baseline:", trial(view.trial)] if view.trial else []
    lines += view.files
    lines += [f"next: {view.next}"] if view.next else []
    return "\n".join(line for line in lines if line)


def blamed(one: Culprit) -> str:
    """A culprit in one line."""
    name = " + ".join(one.members)
    if one.estimate is not None:
        word = "hurts" if one.high is not None and one.high < 0 else "adds nothing that could be seen"
        return f"{click.style('left out', fg='yellow', bold=True)}: {name} {word}: {effect_of(one)}"
    if one.beside:
        return (
            f"{click.style('culprits', fg='red', bold=True)}: {name} together with {' + '.join(one.beside)}: {one.why}"
        )
    head = click.style("culprit", fg="red", bold=True) if one.alone else click.style("left out", fg="yellow", bold=True)
    return f"{head}: {name} {'fails alone' if one.alone else 'fails with the rest'}: {one.why}"


def effect_of(one: Culprit) -> str:
    """What a culprit would add to the survivors."""
    return f"{percent(one.estimate)} [{percent(one.low)}, {percent(one.high)}]"


def outline(view: OutlineView) -> str:
    """What an isolation would do and cost."""
    what = "prevents the start" if view.kind == "failure" else "helps and which hurts"
    lines = [f"{view.name}: which of {len(view.items)} items {what}"]
    lines.append(columns([(f"item {at}", " + ".join(names)) for at, names in enumerate(view.items, 1)], indent="  "))
    if view.kind == "failure":
        lines.append(
            f"about {view.expected_launches:.0f} launches if one is the culprit, {view.worst_launches} if two are"
        )
    else:
        lines.append(f"{view.worst_launches} launches")
    lines.append(f"about {view.expected_min:.0f} to {view.worst_min:.0f} min")
    if not math.isnan(view.trial_worst_min):
        lines.append(
            f"then a trial of what survives: about {view.trial_expected_min:.0f} min if it changes nothing, "
            f"at most {view.trial_worst_min:.0f} min"
        )
    return "\n".join(lines)
