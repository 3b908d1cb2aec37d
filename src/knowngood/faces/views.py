"""What every face shows: one value a command, the same for people, for ``--json`` and for agents.

The ``schema`` field of the JSON names the kind and its version.
"""

import math
from collections import Counter
from collections.abc import Sequence

import msgspec

from knowngood.app.lab import Status
from knowngood.model.baseline import Baseline
from knowngood.model.change import describe
from knowngood.model.diagnosis import Diagnosis, RunnerUp
from knowngood.model.evidence import AccuracyCheck, AnswerCheck, Proof
from knowngood.model.finding import Finding
from knowngood.model.measured import Ruling
from knowngood.model.verdict import Verdict
from knowngood.reason.fold import LabState
from knowngood.reason.load import foreign_cores
from knowngood.reason.rank import Ranked
from knowngood.reason.records import Trial
from knowngood.reason.suspicion import worth_isolating


class View(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="knowngood/message/1"):
    """Something to show; the plain one is a message."""

    message: str = ""


class StatusView(View, frozen=True, kw_only=True, tag="knowngood/status/1"):
    """Is the host at known-good?"""

    status: Status


class LaunchRow(msgspec.Struct, frozen=True, kw_only=True):
    """One launch: arm, pair, value of the objective, seconds to ready, foreign cores, whether it counted.

    Also the server's memory in MB, on the host and on accelerators, and how long drafts were that were accepted.
    """

    index: int
    arm: str
    pair: int
    value: float
    ready_s: float
    foreign_cores: float
    counted: bool
    rss_mb: float = 0.0
    gpu_mb: float | None = None
    acceptance_length: float | None = None


class TrialView(View, frozen=True, kw_only=True, tag="knowngood/trial/1"):
    """One trial with its evidence; ``next`` is the command that finds out which member did it, if that is asked."""

    id: str
    name: str
    claim: str
    because: str
    members: tuple[str, ...]
    verdict: Verdict | None
    undone: bool
    mde: float | None
    minutes: float | None
    launches: tuple[LaunchRow, ...]
    repeats: tuple[str, ...]
    proofs: tuple[Proof, ...]
    answers: AnswerCheck | None
    diagnosis: Diagnosis | None
    next: str = ""
    accuracy: AccuracyCheck | None = None


class TriesView(View, frozen=True, kw_only=True, tag="knowngood/tries/1"):
    """What came out of each experiment file.

    Attributes:
        trials: Those that were tried.
        errors: Why others could not be.
        baseline: Version of the known-good state.
        checks: Checks of the engine's own that were due.
        alarms: What they found.
    """

    trials: tuple[TrialView, ...]
    errors: tuple[str, ...] = ()
    baseline: int = 0
    checks: tuple[TrialView, ...] = ()
    alarms: tuple[str, ...] = ()


class BaselineView(View, frozen=True, kw_only=True, tag="knowngood/baseline/1"):
    """The known-good state and its noise floor.

    Attributes:
        values: Objective of each launch, in order.
        noise: Standard deviation of an A/A difference, as a ratio minus one.
        mde: Smallest effect that a trial keeps with 80 % probability.
    """

    baseline: Baseline
    metric: str
    values: tuple[float, ...]
    noise: float
    mde: float


class PlanView(View, frozen=True, kw_only=True, tag="knowngood/plan/1"):
    """Hypotheses, the most promising first; ``next`` says what failed trials leave to do."""

    hypotheses: tuple[Ranked, ...]
    next: tuple[str, ...] = ()


class FindingsView(View, frozen=True, kw_only=True, tag="knowngood/findings/1"):
    """What was learned."""

    findings: tuple[Finding, ...]


class RecoverView(View, frozen=True, kw_only=True, tag="knowngood/recover/1"):
    """What bringing the host back took.

    Attributes:
        did: One line each.
        known_good: Whether the host is at known-good now.
        drift: Managed files and kept settings that are not what the baseline says.
        memory: Why the lab's memory cannot be read; empty if it can.
    """

    did: tuple[str, ...]
    known_good: bool = True
    drift: tuple[str, ...] = ()
    memory: str = ""


class DiagnosisView(View, frozen=True, kw_only=True, tag="knowngood/diagnosis/1"):
    """Root cause of a log.

    Attributes:
        window: The lines around the decisive one; the first has the number ``window_start``.
        times: How often the log says it.
        starts: Starts of the server that the log holds.
        others: The runners-up, the next best first.
    """

    cause: str
    line: str
    line_number: int
    component: str
    hard: bool
    scope: str
    remedy: str
    confidence: float
    abstained: bool
    rule: str
    retest: str
    process: str
    times: int
    starts: int
    window: tuple[str, ...]
    window_start: int
    others: tuple[RunnerUp, ...]


class JudgeView(View, frozen=True, kw_only=True, tag="knowngood/judge/1"):
    """Verdict on runs that were made elsewhere."""

    ruling: Ruling


class FilesView(View, frozen=True, kw_only=True, tag="knowngood/files/1"):
    """Files that were written, or that a dry run would write."""

    files: tuple[str, ...]


class MemberDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What one file would become: its path, and a unified diff."""

    path: str
    diff: str


class DryRunView(View, frozen=True, kw_only=True, tag="knowngood/dry-run/1"):
    """What a trial would do.

    Attributes:
        name: Of the hypothesis.
        argv: How the candidate would be started.
        env: Variables that the launch adds.
        settings: Settings that would be in force, each as ``name: value now -> value``.
        diffs: Files that would change.
        mde: Smallest effect that the trial would keep with 80 % probability.
        expected_min: Minutes it takes on average if the change does nothing.
        worst_min: Minutes it takes at most.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str]
    diffs: tuple[MemberDiff, ...]
    settings: tuple[str, ...] = ()
    mde: float
    expected_min: float
    worst_min: float


class CaptureView(View, frozen=True, kw_only=True, tag="knowngood/capture/1"):
    """What was edited by hand, as an experiment.

    Attributes:
        name: Of the experiment.
        changed: Paths that it holds.
        left_out: Paths that cannot be captured, each with the reason; they were left as they are.
        diff: What was edited.
        files: Files that were written; in a dry run, that would be.
        put_back: Whether the host was brought back to the baseline's bytes.
    """

    name: str
    changed: tuple[str, ...]
    left_out: tuple[str, ...]
    diff: str
    files: tuple[str, ...]
    put_back: bool


class DoctorView(View, frozen=True, kw_only=True, tag="knowngood/doctor/1"):
    """What this host is and what can be detected on it.

    Attributes:
        facts: Fact name to value.
        problems: What is missing or in the way, with what to do.
        foreign_cores: CPU that others used while we looked, in cores.
        busiest: The processes that used most of it.
        mde: Profile to smallest effect kept with 80 % probability; empty before the first baseline.
        worst_min: Profile to longest duration of a trial, in minutes.
        watched: Host condition that is watched here, to what it reads now.
        unwatched: Host conditions that this machine does not tell.
    """

    facts: dict[str, str]
    problems: tuple[str, ...]
    foreign_cores: float
    busiest: tuple[str, ...]
    mde: dict[str, float]
    worst_min: dict[str, float]
    watched: dict[str, str] = {}
    unwatched: tuple[str, ...] = ()


class FileState(msgspec.Struct, frozen=True, kw_only=True):
    """A managed file and the SHA-256 of its known-good bytes; empty for a file that does not stand there."""

    path: str
    sha256: str


class DemoView(View, frozen=True, kw_only=True, tag="knowngood/demo/1"):
    """What the demo showed.

    Attributes:
        lab: Its folder.
        trials: All trials, in order.
        refused: What was said when the dead end was tried again.
        plan: The plan at the end.
        findings: What was learned.
        status: Whether the host is at known-good.
        files: Managed files, verified by digest.
        report: Path of the report.
        minutes: Duration.
        quick: Whether less evidence was asked for.
    """

    lab: str
    trials: tuple[TrialView, ...]
    refused: str
    plan: PlanView
    findings: FindingsView
    status: StatusView
    files: tuple[FileState, ...]
    report: str
    minutes: float
    quick: bool


def trial_view(trial: Trial) -> TrialView:
    """Show one trial."""
    repeated = Counter(repeat.pair for repeat in trial.repeats)
    rows = tuple(
        LaunchRow(
            index=launch.index,
            arm=launch.arm,
            pair=launch.pair,
            value=launch.value,
            ready_s=launch.ready_s,
            foreign_cores=foreign_cores(launch),
            counted=launch.attempt >= repeated[launch.pair],
            rss_mb=launch.rss_mb,
            gpu_mb=launch.gpu_mb,
            acceptance_length=launch.acceptance_length,
        )
        for launch in trial.launches
    )
    proofs = next((launch.proofs for launch in trial.launches if launch.proofs), ())
    return TrialView(
        id=trial.id,
        name=trial.hypothesis.name,
        claim=trial.hypothesis.claim,
        because=trial.hypothesis.because,
        members=tuple(describe(member) for member in trial.hypothesis.changes.members),
        verdict=trial.verdict,
        undone=trial.undone,
        mde=trial.mde,
        minutes=None if trial.ended_at is None else (trial.ended_at - trial.started_at) / 60,
        launches=rows,
        repeats=tuple(f"pair {repeat.pair + 1}: {repeat.why}" for repeat in trial.repeats),
        proofs=proofs,
        answers=trial.answers,
        diagnosis=trial.diagnosis,
        next=f"knowngood isolate {trial.id}" if worth_isolating(trial) else "",
        accuracy=trial.accuracy,
    )


def baseline_view(state: LabState, baseline: Baseline, *, metric: str, mde: float) -> BaselineView:
    """Show a baseline that was just measured."""
    noise = state.noise
    spread = math.sqrt(sum(value**2 for value in noise) / len(noise)) if noise else 0.0
    runs = [run for run in state.runs.values() if run.baseline.version == baseline.version]
    values = tuple(launch.value for launch in runs[-1].launches) if runs else ()
    return BaselineView(baseline=baseline, metric=metric, values=values, noise=math.expm1(spread), mde=mde)


def diagnosis_view(found: Diagnosis) -> DiagnosisView:
    """Show a root cause."""
    return msgspec.convert(
        {"schema": "knowngood/diagnosis/1", **msgspec.to_builtins(found)}, DiagnosisView, strict=True
    )


def findings_view(findings: Sequence[Finding]) -> FindingsView:
    """Show what was learned, the newest first."""
    return FindingsView(findings=tuple(reversed(findings)))
