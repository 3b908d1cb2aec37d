"""Which trials ask for the member that did it, and what is known of that already."""

from collections import Counter
from collections.abc import Sequence

from knowngood.model.change import ChangeSet
from knowngood.model.events import LaunchFailed
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Kind
from knowngood.reason.findings import change_key
from knowngood.reason.fold import LabState
from knowngood.reason.items import pieces_of
from knowngood.reason.records import Isolation, Trial

REPEATS = 2
"""A pair is repeated so often at most before its trial is given up."""


def failed_start(trial: Trial) -> LaunchFailed | None:
    """The launch of the candidate that ended a trial; None if it ended otherwise.

    A pair that was thrown away three times is the machine's fault, not the change set's.
    """
    given_up = any(times > REPEATS for times in Counter(repeat.pair for repeat in trial.repeats).values())
    is_void = trial.verdict is not None and trial.verdict.decision == "void"
    last = trial.failures[-1] if trial.failures else None
    return last if is_void and not given_up and last is not None and last.arm == "candidate" else None


def worth_isolating(trial: Trial) -> bool:
    """Whether a trial's end asks for the member that did it: several may have, and it failed or was a surprise."""
    if len(pieces_of(trial.hypothesis.changes)) < 2 or trial.verdict is None:  # noqa: PLR2004  (one cannot be parted)
        return False
    surprised = trial.verdict.reason == "regression" and trial.hypothesis.predicts is not None
    return surprised or failed_start(trial) is not None


def newest_trial(state: LabState, changes: ChangeSet, *, baseline: int) -> Trial | None:
    """The newest trial of a change set on one version of the baseline, if it has a verdict; None without one."""
    key = change_key(changes)
    return next(
        (
            trial
            for trial in reversed(state.trials.values())
            if (change_key(trial.hypothesis.changes), trial.baseline) == (key, baseline)
            and trial.verdict is not None
            and trial.verdict.reason != "cut_off"
        ),
        None,
    )


def newest_isolation(
    state: LabState, hypothesis: Hypothesis, *, kind: Kind, items: Sequence[Sequence[str]]
) -> Isolation | None:
    """The newest search for the culprits of the same change set on this very baseline, taken apart in the same way."""
    key = change_key(hypothesis.changes)
    return next(
        (
            one
            for one in reversed(state.isolations.values())
            if change_key(one.hypothesis.changes) == key
            and state.baseline is not None
            and (one.baseline, one.kind, one.items) == (state.baseline.version, kind, tuple(map(tuple, items)))
        ),
        None,
    )


def confirmation(state: LabState, isolation: Isolation) -> Trial | None:
    """The trial of what survived an isolation, on the baseline that it was taken apart on; None without one."""
    if isolation.result is None:
        return None
    return newest_trial(state, isolation.result.rest.changes, baseline=isolation.baseline)


def is_complete(state: LabState, isolation: Isolation) -> bool:
    """Whether nothing is left to do: the culprits are known, and what survived has its trial."""
    result = isolation.result
    if result is None:
        return False
    has_rest = bool(result.culprits and result.rest.changes.members)
    return not has_rest or confirmation(state, isolation) is not None
