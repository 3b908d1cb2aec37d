"""Rates of a trial's arms as facts: which arm speculates is read from its command line."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from knowngood.model.evidence import Arm, LaunchRecord
from knowngood.model.launch import LaunchSpec
from knowngood.model.steptime import Facts
from knowngood.reason.fold import Trial

SPECULATES = ("--speculative", "--spec-", "--draft", "-md", "--model-draft")
replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class TrialArms:
    """A trial with what it takes to read its arms.

    Attributes:
        trial: The trial.
        specs: How each arm was started.
        logs: Logs of servers.
        concurrency: Requests in flight; tokens per second of one request are wanted.
    """

    trial: Trial
    specs: dict[Arm, LaunchSpec]
    logs: tuple[Path, ...]
    concurrency: int


def with_trial(facts: Facts, arms: TrialArms) -> tuple[Facts, tuple[str, ...]]:
    """Fill rates from a trial; numbers that were given stay.

    Args:
        facts: What was given.
        arms: The trial.

    Returns:
        The facts, and what was taken for what.
    """
    trial, notes = arms.trial, list[str]()
    for arm, spec in arms.specs.items():
        rate = rate_of([launch for launch in trial.launches if launch.arm == arm], concurrency=arms.concurrency)
        if rate is None:
            notes.append(f"{trial.id}: the {arm} has no rate of a single request")
        elif speculates(spec):
            taken = facts.speculation.tok_s is None
            facts = replace(facts, speculation=replace(facts.speculation, tok_s=rate)) if taken else facts
            notes.append(
                f"{trial.id}: the {arm} speculates, {rate:.1f} tok/s a request" + ("" if taken else ", not used")
            )
        else:
            taken = facts.baseline.tok_s is None and facts.baseline.step_ms is None
            facts = replace(facts, baseline=replace(facts.baseline, tok_s=rate)) if taken else facts
            notes.append(
                f"{trial.id}: the {arm} does not speculate, {rate:.1f} tok/s a request"
                + ("" if taken else ", not used")
            )
    return facts, tuple(notes)


def speculates(spec: LaunchSpec) -> bool:
    """Whether a command line asks for speculation."""
    return any(word.startswith(SPECULATES) for word in spec.argv)


def rate_of(launches: Sequence[LaunchRecord], *, concurrency: int) -> float | None:
    """Median tokens per second of one request; None if nothing tells it.

    A token's mean time in its request is exact at any load; the rate over all requests is it only for one at a time.
    """
    metrics = [launch.runs[0].metrics for launch in launches if launch.runs]
    rates = [1e3 / one["tpot_mean_ms"] for one in metrics if one.get("tpot_mean_ms")]
    if not rates and concurrency == 1:
        rates = [one["output_tok_s"] for one in metrics if one.get("output_tok_s")]
    return statistics.median(rates) if rates else None
