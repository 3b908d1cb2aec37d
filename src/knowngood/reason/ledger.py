"""The ledger: recent baseline launches of earlier trials, as far as they speak of the machine as it is now."""

import math
import statistics
from collections.abc import Sequence

from knowngood.reason.track import DRIFT_S, DRIFT_SD

LEDGER_SIZE = 5
LEDGER_AGE_S = 7200.0
STEP = 3.0
"""A gap of so many standard deviations between two parts of the ledger is a step."""


def trim_ledger(ledger: Sequence[tuple[float, float]], *, now: float) -> tuple[tuple[float, float], ...]:
    """Keep the newest baseline launches that are recent enough to say something about today's machine.

    Args:
        ledger: (time in seconds, value) of baseline launches, in any order.
        now: Start of the trial on the same clock.

    Returns:
        Up to five entries of the last two hours, oldest first.
    """
    recent = sorted(entry for entry in ledger if now - LEDGER_AGE_S <= entry[0] <= now)
    return tuple(recent[-LEDGER_SIZE:])


def since_last_step(ledger: Sequence[tuple[float, float]], *, scale: float) -> tuple[tuple[float, float], ...]:
    """Leave out what was measured before the machine stepped: a driver, a clock, a neighbour has changed.

    The part behind the clearest gap counts. A ledger only ever ends a trial early: one that is cut for nothing costs a
    launch or two, one that should have been cut ends trials for a step that the candidate has not made.

    Args:
        ledger: (seconds, value above 0) of baseline launches, oldest first.
        scale: Spread of a pair, in ln units.

    Returns:
        The newest launches, as many as a trial uses, or of those the newer part.
    """
    ledger = ledger[-LEDGER_SIZE:]
    scores = {at: gap_score(ledger[:at], ledger[at:], scale=scale) for at in range(1, len(ledger))}
    at = max(scores, key=lambda one: scores[one], default=0)
    return tuple(ledger[at:]) if scores.get(at, 0.0) > STEP else tuple(ledger)


def gap_score(before: Sequence[tuple[float, float]], after: Sequence[tuple[float, float]], *, scale: float) -> float:
    """Gap between two parts of a ledger, in standard deviations of what launches and slow drift explain."""
    middles = [math.log(statistics.median(value for _, value in part)) for part in (before, after)]
    times = [statistics.mean(at for at, _ in part) for part in (before, after)]
    drift = 2 * min(DRIFT_SD, scale) ** 2 * -math.expm1(-(times[1] - times[0]) / DRIFT_S)
    return abs(middles[1] - middles[0]) / math.sqrt(scale**2 / 2 * (1 / len(before) + 1 / len(after)) + drift)
