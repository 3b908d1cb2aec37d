"""The plan: what to try next, by predicted gain times chance over cost."""

import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from knowngood.model.change import ChangeSet, describe
from knowngood.model.finding import Finding
from knowngood.model.hypothesis import Hypothesis
from knowngood.reason.blame import GUILTY
from knowngood.reason.findings import change_key, dead_end
from knowngood.reason.records import Trial

State = Literal["open", "waiting", "dead", "kept", "reverted", "undecided", "void", "undone"]

UNSTATED_GAIN = 0.03
"""Gain assumed where the author predicts nothing: most changes are worth next to nothing."""
CHANCE_STATED = 0.4
CHANCE_UNSTATED = 0.2
"""Chance that a predicted, and an unpredicted, gain is real, before this lab has scored any prediction."""
EDIT_PRICE = 1.5
"""An edit of a file is dearer than a flag: it is reviewed, journalled and undone."""


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """One hypothesis in the plan.

    Attributes:
        name: Of the hypothesis.
        claim: In words.
        state: Whether it can be tried, and what came out if it was.
        score: Predicted gain times chance over cost; comparable within one plan only.
        gain: Predicted gain, as a ratio minus one.
        trial: Its newest trial; empty before the first.
        effect: Measured effect, if there is one.
        why: Why it is in this state.
    """

    name: str
    claim: str
    state: State
    score: float
    gain: float
    trial: str = ""
    effect: float | None = None
    why: str = ""


def rank(
    hypotheses: Sequence[Hypothesis],
    trials: Sequence[Trial],
    findings: Sequence[Finding],
    *,
    facts: Mapping[str, str],
    kept: Sequence[str],
) -> tuple[Ranked, ...]:
    """Order hypotheses: the open ones by score, then those that wait, then what is decided.

    Args:
        hypotheses: Those with an experiment file.
        trials: All trials, oldest first.
        findings: What is known.
        facts: What holds on the host.
        kept: Trials whose change sets are in force.

    Returns:
        Every hypothesis once, tried ones without a file included.
    """
    newest = {trial.hypothesis.name: trial for trial in trials}
    known = {hypothesis.name: hypothesis for hypothesis in hypotheses}
    for name, trial in newest.items():
        known.setdefault(name, trial.hypothesis)
    decided = {name for name, trial in newest.items() if trial.verdict and trial.verdict.decision != "void"}
    ranked = [
        place(hypothesis, newest.get(hypothesis.name), decided, findings, facts=facts, kept=kept)
        for hypothesis in known.values()
    ]
    order = ("open", "waiting", "kept", "undecided", "void", "reverted", "undone", "dead")
    return tuple(sorted(ranked, key=lambda one: (order.index(one.state), -one.score, one.name)))


def left_untested(trials: Sequence[Trial]) -> tuple[str, ...]:
    """What failed trials leave to do.

    Members that were not to blame and were never tried by themselves; sets whose guilty member the evidence does not
    tell.

    Args:
        trials: All trials, oldest first.

    Returns:
        One sentence each, the newest trial first.
    """
    tried = [change_key(trial.hypothesis.changes) for trial in trials]
    newest = {trial.hypothesis.name: place for place, trial in enumerate(trials)}
    found: list[str] = []
    for name, at in sorted(newest.items(), key=lambda one: -one[1]):
        diagnosis = trials[at].diagnosis
        if diagnosis is None or not diagnosis.next:
            continue
        guilty = {one.member for one in diagnosis.suspects if one.sure > GUILTY}
        rest = tuple(one for one in trials[at].hypothesis.changes.members if describe(one) not in guilty)
        if change_key(ChangeSet(members=rest)) not in tried[at + 1 :]:
            found += [f"{trials[at].id} {name}: {advice}" for advice in diagnosis.next]
    return tuple(found)


def place(
    hypothesis: Hypothesis,
    trial: Trial | None,
    decided: set[str],
    findings: Sequence[Finding],
    *,
    facts: Mapping[str, str],
    kept: Sequence[str],
) -> Ranked:
    """Find the state and the score of one hypothesis."""
    gain = predicted_gain(hypothesis)
    chance = CHANCE_STATED if hypothesis.predicts else CHANCE_UNSTATED
    score = gain * chance / (EDIT_PRICE if hypothesis.changes.edits() else 1.0)
    changed = trial is None or change_key(trial.hypothesis.changes) != change_key(hypothesis.changes)
    dead = dead_end(findings, hypothesis.changes, facts)
    waits = [name for name in hypothesis.after if name not in decided]
    state: State
    why = ""
    if dead is not None:
        state, why = "dead", dead.quote or dead.claim
    elif changed or trial is None or trial.verdict is None:
        state, why = ("waiting", f"after {', '.join(waits)}") if waits else ("open", "")
    else:
        state, why = outcome(trial, kept), trial.verdict.why
    verdict = trial.verdict if trial and not changed else None
    return Ranked(
        name=hypothesis.name,
        claim=hypothesis.claim,
        state=state,
        score=score,
        gain=gain,
        trial=trial.id if trial and not changed else "",
        effect=verdict.estimate if verdict else None,
        why=why,
    )


def outcome(trial: Trial, kept: Sequence[str]) -> State:
    """State of a hypothesis that was tried."""
    decision = trial.verdict.decision if trial.verdict else "void"
    if decision == "keep":
        return "kept" if trial.id in kept else "undone"
    return {"revert": "reverted", "inconclusive": "undecided", "void": "void"}[decision]  # type: ignore[return-value]


def predicted_gain(hypothesis: Hypothesis) -> float:
    """Geometric middle of the predicted span, as a gain: a predicted fall of a latency is a gain, too."""
    predicts = hypothesis.predicts
    if predicts is None:
        return UNSTATED_GAIN
    middle = math.sqrt((1 + predicts.low) * (1 + predicts.high))
    return max(middle, 1 / middle) - 1
