"""The state of a lab is a fold over its events; so is everything that is shown of it."""

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

import msgspec

from knowngood.model.baseline import Baseline
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import (
    AccuracyChecked,
    AnswersChecked,
    BaselineFailed,
    BaselineRecorded,
    BaselineStarted,
    Event,
    FindingRecorded,
    KeepUndone,
    LaunchFailed,
    LaunchMeasured,
    Overridden,
    PairRepeated,
    Purpose,
    Recovered,
    TrialEnded,
    TrialStarted,
)
from knowngood.model.evidence import AccuracyCheck, AnswerCheck, LaunchRecord
from knowngood.model.finding import Finding
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.verdict import Verdict
from knowngood.reason.findings import change_key


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


class LabState(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a lab knows.

    Attributes:
        version: Version of the last event.
        baseline: The known-good state; None before the first baseline.
        baselines: All of them, oldest first.
        runs: Id to measuring of a baseline, in order.
        trials: Id to trial, in order.
        checks: Id (``c0001``) to self-test or champion check, in order.
        findings: What was learned, oldest first.
        noise: A/A differences of ln(objective), oldest first.
        at: Unix time of the last event.
    """

    version: int = 0
    baseline: Baseline | None = None
    baselines: tuple[Baseline, ...] = ()
    runs: dict[str, BaselineRun] = {}
    trials: dict[str, Trial] = {}
    checks: dict[str, Trial] = {}
    findings: tuple[Finding, ...] = ()
    noise: tuple[float, ...] = ()
    at: float = 0.0

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Ids of trials and baseline runs that began and did not end."""
        runs = (run.id for run in self.runs.values() if run.ended_at is None)
        trials = (*self.trials.values(), *self.checks.values())
        return (*runs, *(trial.id for trial in trials if trial.ended_at is None))

    def launches(self, run: str) -> tuple[LaunchRecord, ...]:
        """Launches of a trial, a check or a measuring of a baseline."""
        known = {**self.runs, **self.trials, **self.checks}
        return known[run].launches

    @property
    def recent(self) -> tuple[LaunchRecord, ...]:
        """Launches of the newest trial, or measuring of a baseline, that has any."""
        runs = [run.launches for run in self.runs.values() if run.launches]
        runs += [trial.launches for trial in self.trials.values() if trial.launches]
        return max(runs, key=lambda launches: launches[-1].started_at, default=())

    @property
    def ledger(self) -> tuple[LaunchRecord, ...]:
        """Launches of the known-good state as it stands, oldest first.

        A winner's launches are never among them, nor are those that the host was not steady for.
        """
        if self.baseline is None:
            return ()
        here = self.baseline.version
        runs = (last_attempts(run.launches) for run in self.runs.values() if run.baseline.version == here)
        tests = (check for check in self.checks.values() if check.purpose == "self_test")
        trials = (counting(trial) for trial in (*self.trials.values(), *tests) if trial.baseline == here)
        launches = [launch for group in (*runs, *trials) for launch in group if launch.arm == "baseline"]
        return tuple(sorted(launches, key=lambda launch: launch.started_at))


def fold(events: Iterable[tuple[int, Event]], state: LabState | None = None) -> LabState:
    """Apply events in order.

    Args:
        events: Version and event.
        state: Where to begin; None is the empty lab.

    Returns:
        The state after the last event.
    """
    now = state or LabState()
    for version, event in events:
        now = msgspec.structs.replace(step(now, event), version=version, at=event.at)
    return now


def step(state: LabState, event: Event) -> LabState:
    """State after one event."""
    match event:
        case BaselineStarted():
            run = BaselineRun(id=event.run, baseline=event.baseline, planned=event.launches, started_at=event.at)
            return replace(state, runs={**state.runs, run.id: run})
        case BaselineRecorded():
            done = replace(state.runs[event.run], ended_at=event.at)
            moved = advance(replace(state, runs={**state.runs, done.id: done}), event.baseline)
            return replace(moved, noise=flatten(event.noise))
        case BaselineFailed():
            failed = replace(state.runs[event.run], ended_at=event.at)
            return replace(state, runs={**state.runs, failed.id: failed})
        case TrialStarted():
            trial = Trial(
                id=event.trial,
                hypothesis=event.hypothesis,
                baseline=event.baseline,
                profile=event.profile,
                mde=event.mde,
                started_at=event.at,
                launches=whole_pairs(state.trials[event.resumes]) if event.resumes else (),
                purpose=event.purpose,
            )
            if event.purpose != "trial":
                return replace(state, checks={**state.checks, trial.id: trial})
            return replace(state, trials={**state.trials, trial.id: trial})
        case LaunchMeasured() if event.run in state.runs:
            run = state.runs[event.run]
            return replace(state, runs={**state.runs, run.id: replace(run, launches=(*run.launches, event.launch))})
        case LaunchMeasured():
            return on_trial(state, event.run, launches=(*find(state, event.run).launches, event.launch))
        case LaunchFailed() if event.run in state.runs:
            return state
        case LaunchFailed():
            return on_trial(state, event.run, failures=(*find(state, event.run).failures, event))
        case PairRepeated():
            return on_trial(state, event.trial, repeats=(*find(state, event.trial).repeats, event))
        case AnswersChecked():
            return on_trial(state, event.trial, answers=event.check)
        case AccuracyChecked():
            return on_trial(state, event.trial, accuracy=event.check)
        case TrialEnded():
            ended = on_trial(state, event.trial, ended_at=event.at, verdict=event.verdict, diagnosis=event.diagnosis)
            grown = replace(ended, noise=(*ended.noise, *flatten(event.noise)))
            return grown if event.baseline is None else advance(grown, event.baseline)
        case FindingRecorded():
            return replace(state, findings=(*state.findings, event.finding))
        case KeepUndone():
            return advance(on_trial(state, event.trial, undone=True), event.baseline)
        case Recovered():
            return recovered(state, event)
        case Overridden():
            return state
        case _:
            assert_never(event)


def counting(trial: Trial) -> tuple[LaunchRecord, ...]:
    """Launches of a trial without those of pairs that were thrown away."""
    repeats = Counter(repeat.pair for repeat in trial.repeats)
    return tuple(launch for launch in trial.launches if launch.attempt >= repeats[launch.pair])


def last_attempts(launches: tuple[LaunchRecord, ...]) -> tuple[LaunchRecord, ...]:
    """Launches without those whose pair was measured again."""
    last = {launch.pair: launch.attempt for launch in launches}
    return tuple(launch for launch in launches if launch.attempt == last[launch.pair])


def whole_pairs(trial: Trial) -> tuple[LaunchRecord, ...]:
    """Launches of a trial that count: both of a pair, and of its last attempt."""
    counted = counting(trial)
    return counted[: len(counted) // 2 * 2]


def resumable(state: LabState, hypothesis: Hypothesis, *, profile: str) -> str:
    """Find the trial to go on with: the newest one of the same change, if it was cut off against this very baseline.

    Going on is more honest than beginning anew: whoever cuts a trial off may have seen that it went badly.

    Args:
        state: What the lab knows.
        hypothesis: What is to be tested.
        profile: How much evidence is wanted.

    Returns:
        Its id; empty if there is none.
    """
    key = change_key(hypothesis.changes)
    for trial in reversed(state.trials.values()):
        if change_key(trial.hypothesis.changes) == key:
            here = state.baseline is not None and trial.baseline == state.baseline.version
            cut = trial.verdict is not None and trial.verdict.reason == "cut_off"
            return trial.id if here and cut and trial.profile == profile and whole_pairs(trial) else ""
    return ""


def recovered(state: LabState, event: Recovered) -> LabState:
    """Whatever was under way has ended without a verdict of its own."""
    runs = {k: replace(v, ended_at=event.at) if v.ended_at is None else v for k, v in state.runs.items()}
    cut = Verdict(decision="void", reason="cut_off", why="cut off; the host was brought back by recover")

    def close(trials: dict[str, Trial]) -> dict[str, Trial]:
        return {k: replace(v, ended_at=event.at, verdict=cut) if v.ended_at is None else v for k, v in trials.items()}

    return replace(state, runs=runs, trials=close(state.trials), checks=close(state.checks))


def advance(state: LabState, baseline: Baseline) -> LabState:
    """State with a new known-good."""
    return replace(state, baseline=baseline, baselines=(*state.baselines, baseline))


def find(state: LabState, trial: str) -> Trial:
    """The trial, or check, of an id."""
    return state.checks[trial] if trial in state.checks else state.trials[trial]


def on_trial(state: LabState, trial: str, **fields: object) -> LabState:
    """State with some fields of one trial, or check, replaced."""
    if trial in state.checks:
        return replace(state, checks={**state.checks, trial: replace(state.checks[trial], **fields)})
    return replace(state, trials={**state.trials, trial: replace(state.trials[trial], **fields)})


def flatten(noise: dict[str, tuple[float, ...]]) -> tuple[float, ...]:
    """All A/A differences, whatever metric they are of: a lab has one objective."""
    return tuple(value for values in noise.values() for value in values)


replace = msgspec.structs.replace
