"""Rates of a trial's arms as facts: which arm speculates is read from its command line."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from knowngood.model.evidence import Arm, LaunchRecord
from knowngood.model.launch import LaunchSpec
from knowngood.model.steptime import Facts
from knowngood.reason.fold import LabState
from knowngood.reason.records import Trial

SPECULATES = ("--speculative", "--spec-", "--draft", "-md", "--model-draft")
ARMS: tuple[Arm, ...] = ("baseline", "candidate")
replace = msgspec.structs.replace


@dataclass(frozen=True, slots=True)
class TrialArms:
    """A trial with what it takes to read its arms.

    Attributes:
        trial: Its id.
        specs: How each arm was started.
        launches: What was measured in each; a trial that ended early borrows its baseline's earlier launches.
        concurrency: Requests in flight; tokens per second of one request are wanted.
    """

    trial: str
    specs: dict[Arm, LaunchSpec]
    launches: dict[Arm, tuple[LaunchRecord, ...]]
    concurrency: int

    @property
    def logs(self) -> tuple[str, ...]:
        """Digest of the newest log of each arm."""
        newest = (launches[-1].log for launches in self.launches.values() if launches)
        return tuple(dict.fromkeys(log for log in newest if log))


def arms_of(state: LabState, trial: Trial, *, aliases: Mapping[str, str], concurrency: int) -> TrialArms:
    """Both arms of a trial.

    Args:
        state: What the lab knows.
        trial: The trial.
        aliases: Spellings of flags, as the engine declares them.
        concurrency: Requests in flight.
    """
    spec = next(one.spec for one in reversed(state.baselines) if one.version == trial.baseline)
    measured = [
        launch for run in state.runs.values() if run.baseline.version == trial.baseline for launch in run.launches
    ]
    own: dict[Arm, tuple[LaunchRecord, ...]] = {
        arm: tuple(launch for launch in trial.launches if launch.arm == arm) for arm in ARMS
    }
    return TrialArms(
        trial=trial.id,
        specs={"baseline": spec, "candidate": trial.hypothesis.changes.on(spec, aliases=aliases)},
        launches={**own, "baseline": own["baseline"] or tuple(measured)},
        concurrency=concurrency,
    )


def with_trial(facts: Facts, arms: TrialArms) -> tuple[Facts, tuple[str, ...]]:
    """Fill rates from a trial: of the first arm that speculates and of the first that does not.

    Args:
        facts: What was given; its numbers stay.
        arms: The trial.

    Returns:
        The facts, and what was taken for what.
    """
    notes: list[str] = []
    for arm in ARMS:
        rate = rate_of(arms.launches[arm], concurrency=arms.concurrency)
        if rate is None:
            notes.append(f"{arms.trial}: the {arm} has no rate of a single request")
            continue
        drafts = speculates(arms.specs[arm])
        if drafts and facts.speculation.tok_s is None:
            facts, used = replace(facts, speculation=replace(facts.speculation, tok_s=rate)), ""
        elif not drafts and facts.baseline.tok_s is None and facts.baseline.step_ms is None:
            facts, used = replace(facts, baseline=replace(facts.baseline, tok_s=rate)), ""
        else:
            used = "; not used, another number is known"
        notes.append(
            f"{arms.trial}: the {arm} {'speculates' if drafts else 'does not speculate'}, {rate:.1f} tok/s{used}"
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
