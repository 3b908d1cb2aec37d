"""The answer of a trial."""

from typing import Literal

import msgspec

Decision = Literal["keep", "revert", "inconclusive", "void"]
Reason = Literal["", "better", "regression", "not_worthwhile", "guard", "undecided", "cut_off"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What is done with a candidate, and why.

    Effects are ratios minus one of a metric oriented so that more is better: 0.10 means 10 % better.

    Attributes:
        decision: ``keep`` makes the candidate the new baseline; all others restore the baseline.
        reason: ``better`` for a keep; why not for the rest.
        why: The same in one sentence for people.
        estimate: Effect, shrunk towards zero; always inside ``low`` to ``high``.
        low: Lower end of the interval.
        high: Upper end of the interval.
        level: Coverage of the interval.
        pairs: Pairs that were compared.
        launches: Launches that were judged.
        mde: Smallest effect that this design would keep with 80 % probability.
    """

    decision: Decision
    reason: Reason = ""
    why: str = ""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    level: float = 0.90
    pairs: int = 0
    launches: int = 0
    mde: float | None = None
