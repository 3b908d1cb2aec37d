"""Which member of a change set did it: what was asked, and what came out."""

from typing import Literal

import msgspec

from knowngood.model.hypothesis import Hypothesis

Kind = Literal["failure", "effect"]
"""Whether a set that does not run is taken apart, or one that runs and is slower than was believed."""
Outcome = Literal["passed", "failed", "unresolved"]
"""Of launching a subset: ``failed`` is the failure that is looked for, ``unresolved`` any other one."""
Subset = frozenset[int]
"""Numbers of the items that are launched together."""


class Culprit(msgspec.Struct, frozen=True, kw_only=True):
    """What was left out, and why.

    Attributes:
        members: What was left out, each in one line.
        beside: Survivors that it fails together with, while it starts without them; empty if it fails alone.
        alone: Whether launching it alone failed, in the same way as the whole set.
        why: What the launch that shows it said; empty for an effect.
        estimate: What it would add to the survivors, as a ratio minus one of a metric oriented so that more is better.
        low: Lower end of the 90 % interval.
        high: Upper end.
    """

    members: tuple[str, ...]
    beside: tuple[str, ...] = ()
    alone: bool = False
    why: str = ""
    estimate: float | None = None
    low: float | None = None
    high: float | None = None


class Isolated(msgspec.Struct, frozen=True, kw_only=True):
    """What an isolation found.

    Attributes:
        culprits: What was left out; none if the whole set runs after all.
        rest: The surviving subset, as a hypothesis of its own.
        launches: Launches that it took, repeated ones included.
    """

    culprits: tuple[Culprit, ...]
    rest: Hypothesis
    launches: int
