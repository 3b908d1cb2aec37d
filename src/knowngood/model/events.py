"""What happened, in order. The store holds these and nothing else; every view is a fold over them."""

from typing import Literal

import msgspec

from knowngood.model.baseline import Baseline
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.evidence import AccuracyCheck, AnswerCheck, Arm, LaunchRecord
from knowngood.model.finding import Finding
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.verdict import Verdict


class Occurrence(msgspec.Struct, frozen=True, kw_only=True):
    """Root of all events.

    Attributes:
        at: Unix time.
    """

    at: float


class BaselineStarted(Occurrence, frozen=True, kw_only=True, tag="baseline_started"):
    """Measuring a new baseline began; ``run`` names it and ``launches`` is the number planned."""

    run: str
    baseline: Baseline
    launches: int


class BaselineRecorded(Occurrence, frozen=True, kw_only=True, tag="baseline_recorded"):
    """The baseline of ``run`` is the known-good state; ``noise`` holds its A/A differences of ln(metric)."""

    run: str
    baseline: Baseline
    noise: dict[str, tuple[float, ...]]


class BaselineFailed(Occurrence, frozen=True, kw_only=True, tag="baseline_failed"):
    """Measuring the baseline of ``run`` ended without one; the host is back."""

    run: str
    why: str


Purpose = Literal["trial", "self_test", "champion"]
"""What pairs are measured for: a hypothesis, the engine's own honesty (A/A), or all keeps against the original."""


class TrialStarted(Occurrence, frozen=True, kw_only=True, tag="trial_started"):
    """A trial began: from here on it must end, or be ended by ``recover``.

    Attributes:
        resumes: Trial that was cut off and whose whole pairs count here; empty for a fresh start.
        purpose: A check of the engine's own is measured as a trial is, and never changes what is known-good.
    """

    trial: str
    hypothesis: Hypothesis
    baseline: int
    profile: str
    mde: float | None = None
    resumes: str = ""
    purpose: Purpose = "trial"


class LaunchMeasured(Occurrence, frozen=True, kw_only=True, tag="launch_measured"):
    """One launch of trial or baseline run ``run`` was measured."""

    run: str
    launch: LaunchRecord


class LaunchFailed(Occurrence, frozen=True, kw_only=True, tag="launch_failed"):
    """A launch did not yield a measurement; ``log`` is the digest of its log."""

    run: str
    arm: Arm
    index: int
    why: str
    diagnosis: Diagnosis | None = None
    log: str = ""


class PairRepeated(Occurrence, frozen=True, kw_only=True, tag="pair_repeated"):
    """A pair was thrown away because a host condition differed between its arms."""

    trial: str
    pair: int
    why: str


class AnswersChecked(Occurrence, frozen=True, kw_only=True, tag="answers_checked"):
    """The candidate's greedy answers were compared with the baseline's."""

    trial: str
    check: AnswerCheck


class AccuracyChecked(Occurrence, frozen=True, kw_only=True, tag="accuracy_checked"):
    """The lab's accuracy command was run against both arms."""

    trial: str
    check: AccuracyCheck


class TrialEnded(Occurrence, frozen=True, kw_only=True, tag="trial_ended"):
    """A trial has its verdict. With a keep, ``baseline`` is the new known-good state."""

    trial: str
    verdict: Verdict
    diagnosis: Diagnosis | None = None
    baseline: Baseline | None = None
    noise: dict[str, tuple[float, ...]] = {}


class FindingRecorded(Occurrence, frozen=True, kw_only=True, tag="finding_recorded"):
    """Something was learned."""

    finding: Finding


class KeepUndone(Occurrence, frozen=True, kw_only=True, tag="keep_undone"):
    """The keep of ``trial`` was taken back; ``baseline`` is known-good again."""

    trial: str
    baseline: Baseline


class Recovered(Occurrence, frozen=True, kw_only=True, tag="recovered"):
    """The host was brought back after a crash; ``did`` says what that took."""

    did: tuple[str, ...]
    trial: str = ""


class Overridden(Occurrence, frozen=True, kw_only=True, tag="overridden"):
    """Somebody ran ``trial`` against the dead end ``finding``, for a stated reason."""

    trial: str
    finding: str
    reason: str


Event = (
    BaselineStarted
    | BaselineRecorded
    | BaselineFailed
    | TrialStarted
    | LaunchMeasured
    | LaunchFailed
    | PairRepeated
    | AnswersChecked
    | AccuracyChecked
    | TrialEnded
    | FindingRecorded
    | KeepUndone
    | Recovered
    | Overridden
)
