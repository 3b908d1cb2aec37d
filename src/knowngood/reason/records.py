"""What was measured, as far as it went: trials, baselines, isolations, races. `reason.fold` makes them of events."""

import msgspec

from knowngood.model.baseline import Baseline
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import (
    LaunchFailed,
    LaunchRepeated,
    PairRepeated,
    Purpose,
    SubsetLaunched,
)
from knowngood.model.evidence import AccuracyCheck, AnswerCheck, LaunchRecord
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Isolated, Kind
from knowngood.model.race import Space, Standing, Values
from knowngood.model.verdict import Verdict


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One hypothesis tested against one baseline version, as far as it went.

    Attributes:
        id: ``t0001``, unique in a lab.
        hypothesis: What was tested.
        baseline: Version of the baseline it was tested against.
        profile: How much evidence was wanted.
        mde: Smallest effect the design keeps with 80 % probability, as stated beforehand.
        started_at: Unix time.
        ended_at: Unix time; None while it runs or if it was cut off.
        launches: All launches measured, spoiled pairs included, in order.
        failures: Launches that yielded nothing.
        repeats: Why pairs were repeated.
        answers: Comparison of greedy answers, once made.
        accuracy: What the lab's accuracy command said of both arms, once it was run.
        verdict: None while it runs or if it was cut off.
        diagnosis: Why it was void.
        undone: The keep was taken back later.
        purpose: ``trial``, or which check of the engine's own it was.
    """

    id: str
    hypothesis: Hypothesis
    baseline: int
    profile: str
    mde: float | None = None
    started_at: float
    ended_at: float | None = None
    launches: tuple[LaunchRecord, ...] = ()
    failures: tuple[LaunchFailed, ...] = ()
    repeats: tuple[PairRepeated, ...] = ()
    answers: AnswerCheck | None = None
    accuracy: AccuracyCheck | None = None
    verdict: Verdict | None = None
    diagnosis: Diagnosis | None = None
    undone: bool = False
    purpose: Purpose = "trial"


class BaselineRun(msgspec.Struct, frozen=True, kw_only=True):
    """One measuring of a baseline: A/A launches.

    Attributes:
        id: ``b0001``, unique in a lab.
        baseline: What was measured.
        planned: Launches planned.
        started_at: Unix time.
        ended_at: Unix time; None while it runs or if it was cut off.
        launches: Launches measured, in order.
    """

    id: str
    baseline: Baseline
    planned: int
    started_at: float
    ended_at: float | None = None
    launches: tuple[LaunchRecord, ...] = ()


class Isolation(msgspec.Struct, frozen=True, kw_only=True):
    """One search for the culprits of a change set, as far as it went.

    Attributes:
        id: ``i0001``, unique in a lab.
        hypothesis: What is taken apart.
        baseline: Version of the baseline that it is taken apart on.
        kind: Whether a failure or an effect is looked for.
        items: What is launched or left out as a whole, in lines for people; the riskiest item last.
        signature: The failure that is looked for.
        trial: Trial that failed or surprised.
        started_at: Unix time.
        ended_at: Unix time; None while it runs or if it was cut off.
        launches: All launches so far, those of an isolation that is gone on with included.
        result: What was found; None until then.
    """

    id: str
    hypothesis: Hypothesis
    baseline: int
    kind: Kind
    items: tuple[tuple[str, ...], ...]
    signature: str
    trial: str
    started_at: float
    ended_at: float | None = None
    launches: tuple[SubsetLaunched, ...] = ()
    result: Isolated | None = None


class RaceRun(msgspec.Struct, frozen=True, kw_only=True):
    """One race of many candidates against one baseline version, as far as it went.

    Attributes:
        id: ``r0001``, unique in a lab.
        key: Digest of all that was to be raced.
        baseline: Version of the baseline.
        profile: How much evidence is wanted of the confirming trial.
        candidates: All that were raced, in the order they came in.
        values: Candidate to its knob values, if a space proposed it.
        left_out: Candidate to the reason why it was not raced.
        space: Where proposals come from.
        metrics: The two metrics of the Pareto view.
        started_at: Unix time.
        ended_at: Unix time; None while it runs or if it was cut off.
        history: Launches that count, and those that yielded nothing, in order.
        repeats: Launches that were thrown away, and why.
        winner: Name of the candidate that goes into the confirming trial; empty if there is none.
        why: How it ended.
        standings: How each candidate came out.
        cut_off: It did not get to its end.
    """

    id: str
    key: str
    baseline: int
    profile: str
    candidates: tuple[Hypothesis, ...] = ()
    values: dict[str, Values] = {}
    left_out: dict[str, str] = {}
    space: Space | None = None
    metrics: tuple[str, str]
    started_at: float
    ended_at: float | None = None
    history: tuple[LaunchRecord | LaunchFailed, ...] = ()
    repeats: tuple[LaunchRepeated, ...] = ()
    winner: str = ""
    why: str = ""
    standings: tuple[Standing, ...] = ()
    cut_off: bool = False

    @property
    def launches(self) -> tuple[LaunchRecord, ...]:
        """Launches that count, in order."""
        return tuple(one for one in self.history if isinstance(one, LaunchRecord))

    @property
    def failures(self) -> tuple[LaunchFailed, ...]:
        """Launches that yielded nothing, in order."""
        return tuple(one for one in self.history if isinstance(one, LaunchFailed))

    def candidate(self, name: str) -> Hypothesis:
        """The hypothesis of a candidate."""
        return next(one for one in self.candidates if one.name == name)
