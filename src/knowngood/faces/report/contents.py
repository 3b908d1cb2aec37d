"""Everything that a report is made of: the page is a pure function of this."""

import msgspec

from knowngood.config.lab import LabConfig
from knowngood.faces.report.curves import Distributions
from knowngood.reason.fold import LabState
from knowngood.reason.rank import Ranked


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the host was at known-good when the report was written.

    Attributes:
        known_good: Nothing is under way, left over or drifted; None if it could not be looked at.
        lines: What stands in the way, one line each.
    """

    known_good: bool | None
    lines: tuple[str, ...] = ()


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a report shows.

    Attributes:
        config: Settings of the lab.
        state: Everything the lab knows.
        host: How the host was found.
        plan: Hypotheses, the most promising first.
        curves: Trial to its latency distributions; trials without raw samples are left out.
        version: Of knowngood.
        remarks: What could not be shown, one line each.
    """

    config: LabConfig
    state: LabState
    host: HostState
    plan: tuple[Ranked, ...] = ()
    curves: dict[str, Distributions] = {}
    version: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def metric(self) -> str:
        """Name of the objective's metric."""
        return self.config.objective.metric
