"""``knowngood report``: everything a lab knows, as one self-contained HTML file."""

from pathlib import Path

from knowngood import __version__
from knowngood.app.lab import Lab, Status
from knowngood.errors import KnowngoodError, UsageError
from knowngood.faces.report.contents import Contents, HostState
from knowngood.faces.report.curves import Distributions, read_distributions
from knowngood.faces.report.page import document
from knowngood.reason.rank import rank


def write_report(lab: Lab, out: Path) -> None:
    """Write the report. Starts nothing and changes nothing on the host.

    Args:
        lab: What to report on.
        out: The file; what stands there is replaced.

    Raises:
        UsageError: The file cannot be written.
    """
    page = document(collect(lab))
    try:
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {out}: {error.strerror}", hint="choose another file with --out") from error


def collect(lab: Lab) -> Contents:
    """Gather what the report shows. What cannot be read is left out, and the report says so."""
    remarks: list[str] = []
    state = lab.state
    facts, kept = (state.baseline.facts, state.baseline.kept) if state.baseline else ({}, ())
    try:
        plan = lab.plan()
    except KnowngoodError as error:
        remarks.append(f"The plan shows tried hypotheses only: {error.message}.")
        plan = rank((), tuple(state.trials.values()), state.findings, facts=facts, kept=kept)
    try:
        host = host_state(lab.status())
    except KnowngoodError as error:
        host = HostState(known_good=None, lines=(error.message,))
    return Contents(
        config=lab.config,
        state=state,
        host=host,
        plan=plan,
        curves=distributions(lab),
        version=__version__,
        remarks=tuple(remarks),
    )


def host_state(status: Status) -> HostState:
    """Whether the host is at known-good, and what stands in the way."""
    lines = [f"busy: {status.running}"] if status.running else []
    lines += [f"left over: {line}" for line in status.left_over]
    lines += [f"drift: {path} is not what the baseline says" for path in status.drift]
    return HostState(known_good=status.known_good, lines=tuple(lines))


def distributions(lab: Lab) -> dict[str, Distributions]:
    """Latency distributions of every trial that has raw samples and may show numbers."""
    found: dict[str, Distributions] = {}
    for trial in lab.state.trials.values():
        if trial.verdict is None or trial.verdict.decision != "void":
            curves = read_distributions(trial, lab.artifacts, lab.config.workloads[0])
            if curves.ttft or curves.itl:
                found[trial.id] = curves
    return found
