"""Metrics that must not get worse, judged on the same pairs as the objective.

Requiring every guard to hold needs no correction for their number (intersection-union test).
Source: statistics of the project's own study, summarised in ``docs/explanation/verdict.md``.
"""

import math
import statistics
from collections.abc import Sequence
from typing import Literal

import msgspec

from knowngood.reason.noise import noise_from_launches

FAIL_LEVEL = 0.95
PASS_LEVEL = 0.90
MIN_ERRORS = 3
ERROR_LEVEL = 0.01
LEAST_PAIRS = 2
MEMORY_SPREAD = 0.002
"""Launches of one thing are never taken to repeat their memory better than this, in ln units of a difference."""
UNKNOWN_MEMORY_SPREAD = 0.01
"""Assumed spread where the baseline was launched only once."""
UNKNOWN_FREEDOM = 4
COLLAPSE = 0.5
"""Share of the baseline's accepted drafts below which speculation has collapsed."""
NOTHING_ACCEPTED = 1.05
"""Acceptance length below which drafts help with no token in twenty."""


class GuardResult(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one guard holds.

    Attributes:
        name: Workload and metric.
        state: ``undecided`` if the pairs do not suffice for either answer.
        why: The figures, in one sentence.
    """

    name: str
    state: Literal["pass", "fail", "undecided"]
    why: str


def judge_loss(name: str, losses: Sequence[float], *, margin: float, history: Sequence[float]) -> GuardResult:
    """Judge one metric by its loss in each pair.

    Args:
        name: Workload and metric, for messages.
        losses: ln ratio a pair, above zero where the candidate is worse.
        margin: Largest loss allowed, as a ratio minus one.
        history: A/A ln differences of the same metric; they steady the spread.

    Returns:
        ``fail`` if the loss is surely above the margin, ``pass`` if it is surely below.
    """
    pairs = len(losses)
    if not pairs:
        return GuardResult(name=name, state="undecided", why="no pair was measured")
    if math.inf in losses:
        return GuardResult(name=name, state="fail", why="it fell to nothing on the candidate")
    mean = sum(losses) / pairs
    squares = sum((loss - mean) ** 2 for loss in losses) + sum(value**2 for value in history)
    freedom = pairs - 1 + len(history)
    shown = f"{math.expm1(mean):+.1%} over {pairs} pair{'s' * (pairs > 1)}, at most {margin:+.1%} is allowed"
    if freedom < 1:
        return GuardResult(name=name, state="undecided", why=shown)
    from scipy.special import stdtrit  # noqa: PLC0415  (0.2 s, needed only once a pair was measured)

    error = math.sqrt(squares / freedom / pairs)
    limit = math.log1p(margin)
    if pairs >= LEAST_PAIRS and mean - float(stdtrit(freedom, FAIL_LEVEL)) * error > limit:
        return GuardResult(name=name, state="fail", why=shown)
    if mean + float(stdtrit(freedom, PASS_LEVEL)) * error < limit:
        return GuardResult(name=name, state="pass", why=shown)
    return GuardResult(name=name, state="undecided", why=shown)


def judge_errors(*, errors: int, requests: int, base_errors: int, base_requests: int, limit: float) -> GuardResult:
    """Judge the candidate's failed requests against the baseline's rate plus the limit.

    Args:
        errors: Failed requests of the candidate.
        requests: All its requests.
        base_errors: Failed requests of the baseline.
        base_requests: All its requests.
        limit: Rate of failures allowed beyond the baseline's, from 0 to 1.

    Returns:
        ``fail`` at three or more failures that the allowed rate explains with less than 1 % probability.
    """
    allowed = limit + (base_errors + 0.5) / (base_requests + 1)
    why = f"{errors} of {requests} requests failed, {base_errors} of {base_requests} on the baseline"
    if errors < MIN_ERRORS or requests == 0:
        return GuardResult(name="error_rate", state="pass", why=why)
    from scipy.special import bdtrc  # noqa: PLC0415  (0.2 s, needed only where requests failed)

    chance = float(bdtrc(errors - 1, requests, min(allowed, 1.0)))
    return GuardResult(name="error_rate", state="fail" if chance < ERROR_LEVEL else "pass", why=why)


SLIGHT_MB = 16.0
"""Growth that no host is short of: a module more, a larger buffer."""


def judge_memory(name: str, mine: Sequence[float], base: Sequence[float], *, margin: float) -> GuardResult:
    """Judge memory: nearly the same in each launch, so that one launch an arm suffices.

    Args:
        name: Whose memory, for messages.
        mine: MB of each of the candidate's launches.
        base: MB of each of the baseline's, oldest first; how they differ is the noise.
        margin: Largest growth allowed, as a ratio minus one.

    Returns:
        ``fail`` if the growth is surely above the margin, ``pass`` if it is surely below. Less than ``SLIGHT_MB`` never
        fails.
    """
    mine, base = [mb for mb in mine if mb > 0], [mb for mb in base if mb > 0]
    if not mine or not base:
        return GuardResult(name=name, state="undecided", why="it was not measured")
    before, after = statistics.median(base), statistics.median(mine)
    growth = math.log(after / before)
    shown = f"{after:,.0f} MB, {before:,.0f} MB on the baseline"
    why = f"{shown}: {math.expm1(growth):+.1%}, at most {margin:+.1%} is allowed"
    from scipy.special import stdtrit  # noqa: PLC0415  (0.2 s, needed only once something was measured)

    known = noise_from_launches(base)
    spread = math.sqrt(sum(value**2 for value in known) / len(known)) if known else UNKNOWN_MEMORY_SPREAD
    # A difference of two launches has that spread, that of two means less.
    error = max(spread, MEMORY_SPREAD) * math.sqrt((1 / len(mine) + 1 / len(base)) / 2)
    error *= float(stdtrit(max(len(known), UNKNOWN_FREEDOM), FAIL_LEVEL))
    limit = math.log1p(max(margin, SLIGHT_MB / before))
    if growth - error > limit:
        return GuardResult(name=name, state="fail", why=f"{why} ([guards] memory)")
    return GuardResult(name=name, state="pass" if growth + error < limit else "undecided", why=why)


def suspect_speculation(mine: Sequence[float], base: Sequence[float]) -> str:
    """Say why speculation looks corrupted: drafts are made, and what they are good for is gone.

    A target whose hidden states are damaged stays fast and fluent, and stops agreeing with its draft.

    Args:
        mine: Acceptance lengths of the candidate's launches that speculated.
        base: The same of the baseline's.

    Returns:
        One sentence; empty if there is nothing to suspect.
    """
    if not mine:
        return ""
    now = statistics.median(mine)
    if base:
        before = statistics.median(base)
        if now - 1 < COLLAPSE * (before - 1):
            return f"possible corruption: the acceptance length fell from {before:.2f} to {now:.2f} tokens"
        return ""
    if now < NOTHING_ACCEPTED:
        return f"possible corruption: speculation is on and accepts nothing (acceptance length {now:.2f} tokens)"
    return ""
