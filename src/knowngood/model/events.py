"""What happened, in order. The store holds these and nothing else; every view is a fold over them."""

from typing import Literal

import msgspec

from knowngood.model.baseline import Baseline
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.evidence import AccuracyCheck, AnswerCheck, Arm, LaunchRecord
from knowngood.model.finding import Finding
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Isolated, Kind, Outcome
from knowngood.model.race import Space, Standing, Values
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
    """One launch of trial, race or baseline run ``run`` was measured."""

    run: str
    launch: LaunchRecord


class LaunchFailed(Occurrence, frozen=True, kw_only=True, tag="launch_failed"):
    """A launch did not yield a measurement; ``log`` is the digest of its log, ``candidate`` its name in a race."""

    run: str
    arm: Arm
    index: int
    why: str
    diagnosis: Diagnosis | None = None
    log: str = ""
    candidate: str = ""


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


class IsolationStarted(Occurrence, frozen=True, kw_only=True, tag="isolation_started"):
    """The search for the culprits of a change set began.

    Attributes:
        items: What is launched or left out as a whole: the pieces of each, in one line, the riskiest item last.
        signature: The failure that is looked for; empty until the whole set was launched, and for an effect.
        trial: Trial that failed or surprised; empty if there is none.
        resumes: Isolation that was cut off and whose launches count here; empty for a fresh start.
    """

    isolation: str
    hypothesis: Hypothesis
    baseline: int
    kind: Kind
    items: tuple[tuple[str, ...], ...]
    signature: str = ""
    trial: str = ""
    resumes: str = ""


class SubsetLaunched(Occurrence, frozen=True, kw_only=True, tag="subset_launched"):
    """Some items of an isolation were launched together.

    Attributes:
        index: Number of the launch in its isolation, from 0.
        subset: Numbers of the items.
        outcome: What came out.
        launch: What was measured; None for a failure.
        signature: What kind of failure it was.
        why: What the failure said.
        diagnosis: Why it failed.
        log: Digest of the failed server's log.
        counts: False if it was launched again because host or load were to blame.
    """

    isolation: str
    index: int
    subset: tuple[int, ...]
    outcome: Outcome
    launch: LaunchRecord | None = None
    signature: str = ""
    why: str = ""
    diagnosis: Diagnosis | None = None
    log: str = ""
    counts: bool = True


class IsolationEnded(Occurrence, frozen=True, kw_only=True, tag="isolation_ended"):
    """The culprits are found."""

    isolation: str
    result: Isolated


class RaceStarted(Occurrence, frozen=True, kw_only=True, tag="race_started"):
    """A race began: from here on it must end, or be ended by ``recover``.

    Attributes:
        key: Digest of all that was to be raced: the same line-up is recognised by it.
        candidates: Those that are in it from the start; a space adds its proposals later.
        left_out: Candidate to the reason why it is not raced.
        metrics: The two metrics of its Pareto view.
        resumes: Race that was cut off and whose launches count here; empty for a fresh start.
    """

    race: str
    key: str
    baseline: int
    profile: str
    candidates: tuple[Hypothesis, ...] = ()
    left_out: dict[str, str] = {}
    space: Space | None = None
    metrics: tuple[str, str]
    resumes: str = ""


class CandidateProposed(Occurrence, frozen=True, kw_only=True, tag="candidate_proposed"):
    """A knob space yielded one more candidate; ``values`` are those of the knobs that take part."""

    race: str
    hypothesis: Hypothesis
    values: Values


class LaunchRepeated(Occurrence, frozen=True, kw_only=True, tag="launch_repeated"):
    """A launch of race ``run`` was thrown away, because a host condition was unlike that of the others."""

    run: str
    launch: LaunchRecord
    why: str


class RaceEnded(Occurrence, frozen=True, kw_only=True, tag="race_ended"):
    """A race is over; ``winner`` is empty if nobody won, ``cut_off`` tells that it did not get to its end."""

    race: str
    why: str
    winner: str = ""
    standings: tuple[Standing, ...] = ()
    cut_off: bool = False


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
    | IsolationStarted
    | SubsetLaunched
    | IsolationEnded
    | RaceStarted
    | CandidateProposed
    | LaunchRepeated
    | RaceEnded
)
