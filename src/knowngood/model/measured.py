"""Runs that were made elsewhere, as they are offered for a verdict."""

import statistics
from typing import Literal

import msgspec

from knowngood.model.verdict import Verdict

Side = Literal["baseline", "candidate", "noise"]
"""Arm of a run made elsewhere; ``noise`` is the baseline once more, launched to compare it with itself."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one run.

    Attributes:
        arm: What was measured.
        launch: Which start of the server the run belongs to, within its arm; empty if that is not known.
        run: Which pass of the launch it was; empty if that was not told.
        metric: Name of the metric.
        value: Its value, above 0.
        at: When the run began, in seconds on one clock; None if that is not known.
    """

    arm: Side
    launch: str
    run: str
    metric: str
    value: float
    at: float | None


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A file of runs.

    Attributes:
        name: Of the file, for messages.
        runs: Its rows, in their order.
        unread: Columns that are none of ours.
    """

    name: str
    runs: tuple[Measured, ...]
    unread: tuple[str, ...] = ()


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of the runs.

    Attributes:
        metric: The one that decides.
        direction: Whether more or less of it is better.
        worthwhile: Smallest effect worth having, as a ratio minus one.
        profile: How much proof, how long.
    """

    metric: str
    direction: Literal["higher", "lower"]
    worthwhile: float
    profile: str


class Start(msgspec.Struct, frozen=True, kw_only=True):
    """One launch that was made elsewhere.

    Attributes:
        arm: What was launched.
        name: Its name within the arm.
        at: When its first run began, in seconds.
        values: The metric in each of its runs, in order.
        use: ``pair N``, ``alone`` (the first launch of a pair that has no second), ``noise``, ``after`` (the rule had
            its verdict already), or ``left out``.
    """

    arm: Side
    name: str
    at: float
    values: tuple[float, ...]
    use: str = "left out"

    @property
    def value(self) -> float:
        """Median of its runs: runs of one launch share its luck and count as one."""
        return statistics.median(self.values)

    @property
    def title(self) -> str:
        """Arm and name."""
        return f"{self.arm} {self.name}"


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """What the rule says of runs made elsewhere.

    Attributes:
        question: What was asked.
        verdict: None if the rule would ask for more launches.
        effect: Estimate so far and the ends of its interval, as ratios minus one; empty before both arms were seen.
        mde: Smallest effect that a trial of this design keeps with 80 % probability.
        pairs: Pairs of launches that were compared.
        noise: ln differences of equal launches that stood side by side.
        launches: All launches in their order, each with what it was used for.
        problems: Where the design is not what the rule needs.
        needed: What would make a verdict possible; empty if there is one.
    """

    question: Question
    verdict: Verdict | None
    effect: tuple[float, ...]
    mde: float
    pairs: int
    noise: tuple[float, ...]
    launches: tuple[Start, ...]
    problems: tuple[str, ...]
    needed: tuple[str, ...]
