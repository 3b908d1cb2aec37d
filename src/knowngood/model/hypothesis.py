"""What somebody believes, and the change set that would show it."""

import msgspec

from knowngood.model.amounts import Number
from knowngood.model.change import ChangeSet


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """Effect that the author expects.

    Attributes:
        metric: Name of the metric, such as ``output_tok_s`` or ``itl_p50_ms``.
        low: Smaller end, as a ratio minus one: 0.1 is +10 %.
        high: Larger end, in the same unit.
    """

    metric: str
    low: float
    high: float


class Sign(msgspec.Struct, frozen=True, kw_only=True):
    """What shows that the change was reached while the server ran, and does not show on the baseline.

    Attributes:
        log: Regular expression of a line of the server's log, such as a message or the name of a kernel.
        metric: Or the name of a metric on one of the engine's pages.
        above: What the metric must be above, summed over its labels.
    """

    log: str = ""
    metric: str = ""
    above: Number = 0.0


class Hypothesis(msgspec.Struct, frozen=True, kw_only=True):
    """A claim with its reason and the change set that tests it.

    Attributes:
        name: Unique in a lab; the stem of the experiment file by default.
        claim: What is believed.
        because: Why.
        changes: The matched set.
        predicts: Expected effect, if the author dares.
        proves: What shows that the change was reached, beyond what each member's effect proof says.
        requires: Conditions on the host, checked at preflight.
        after: Names of hypotheses that must be decided first.
    """

    name: str
    claim: str
    because: str = ""
    changes: ChangeSet = ChangeSet()
    predicts: Prediction | None = None
    proves: Sign | None = None
    requires: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
