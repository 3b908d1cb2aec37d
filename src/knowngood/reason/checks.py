"""The engine's checks of itself: when one is due, and when what they found is an alarm.

A *self-test* is an A/A trial: it must not end in a keep. A *champion check* compares all keeps together with the
original: single trials see neither a candidate that is noisier than its baseline was, nor keeps that spoil each other.
"""

import math
from collections.abc import Iterable

from knowngood.model.events import Purpose
from knowngood.model.evidence import LaunchRecord
from knowngood.reason.fold import LabState, whole_pairs
from knowngood.reason.noise import FULL_HISTORY, noise_floor
from knowngood.reason.records import Trial

FALSE_KEEP = 0.01
"""Rate of false keeps that the rule promises not to exceed."""
ALARM = 0.01
"""A record this improbable under the promise is an alarm."""
SPREAD_MOVED = 0.30
"""Change of the noise floor worth an alarm, as a ratio minus one, where chance does not explain it."""
ALARM_SCORE = 2.6


def due_check(state: LabState, *, self_test_every: int, champion_every: int) -> Purpose | None:
    """Which check is due after the trials so far; None if none is.

    Args:
        state: What the lab knows.
        self_test_every: Decided trials between self-tests; 0 for never.
        champion_every: Keeps in force between champion checks; 0 for never.
    """
    if state.baseline is None:
        return None
    decided = [trial for trial in state.trials.values() if is_decided(trial)]
    if self_test_every and len(since(state, "self_test", decided)) >= self_test_every:
        return "self_test"
    kept = [state.trials[name] for name in state.baseline.kept if name in state.trials]
    if champion_every and len(since(state, "champion", kept)) >= champion_every:
        return "champion"
    return None


def is_decided(trial: Trial) -> bool:
    """Whether a trial came to a verdict of its own."""
    return trial.verdict is not None and trial.verdict.decision != "void"


def since(state: LabState, purpose: Purpose, trials: Iterable[Trial]) -> list[Trial]:
    """Trials that ended after the newest check of a kind began; one that was cut off or void does not count as made."""
    made = [check.started_at for check in state.checks.values() if check.purpose == purpose and is_decided(check)]
    last = max(made, default=-math.inf)
    return [trial for trial in trials if (trial.ended_at or 0.0) > last]


def alarms(state: LabState) -> tuple[str, ...]:
    """What the checks found that somebody has to look at, one sentence each."""
    found: list[str] = []
    tests = [check for check in state.checks.values() if check.purpose == "self_test" and is_decided(check)]
    keeps = sum(test.verdict is not None and test.verdict.decision == "keep" for test in tests)
    if keeps and at_least(keeps, of=len(tests), rate=FALSE_KEEP) <= ALARM:
        found.append(
            f"{keeps} of {len(tests)} self-tests kept a change that was none: verdicts on this host are not to be "
            "trusted before you know why (`knowngood doctor`, `knowngood baseline`)"
        )
    found += moved_spread(state, tests)
    found += lost_champion(state)
    return tuple(found)


def at_least(hits: int, *, of: int, rate: float) -> float:
    """Chance of at least so many hits (binomial tail)."""
    return sum(math.comb(of, k) * rate**k * (1 - rate) ** (of - k) for k in range(hits, of + 1))


def moved_spread(state: LabState, tests: Iterable[Trial]) -> list[str]:
    """Whether self-tests of this baseline's workload spread otherwise than the history says."""
    pairs = [math.log(one.value / other.value) for test in tests for one, other in couples(test)]
    if len(pairs) < FULL_HISTORY or len(state.noise) < FULL_HISTORY:
        return []
    mine, known = noise_floor(pairs).scale, noise_floor(state.noise).scale
    # The logarithm of a spread from n values has a standard deviation of about 1 / sqrt(2 n).
    by_chance = ALARM_SCORE * math.sqrt(1 / (2 * len(pairs)) + 1 / (2 * len(state.noise)))
    if abs(math.log(mine / known)) <= max(math.log1p(SPREAD_MOVED), by_chance):
        return []
    return [f"self-tests spread by {mine:.1%} a pair, but the noise floor is {known:.1%}: run `knowngood baseline`"]


def couples(trial: Trial) -> list[tuple[LaunchRecord, LaunchRecord]]:
    """Launches of a trial, two by two."""
    counted = whole_pairs(trial)
    return list(zip(counted[0::2], counted[1::2], strict=True))


def lost_champion(state: LabState) -> list[str]:
    """Whether the newest champion check of what is known-good now did not end in proof."""
    if state.baseline is None:
        return []
    checks = [check for check in state.checks.values() if check.purpose == "champion" and is_decided(check)]
    newest = checks[-1] if checks else None
    if newest is None or newest.verdict is None or newest.verdict.decision == "keep":
        return []
    if newest.baseline != state.baseline.version:
        return []
    way = "`knowngood undo` takes the last one back"
    return [f"all keeps together are not proven better than the original ({newest.id}: {newest.verdict.why}): {way}"]
