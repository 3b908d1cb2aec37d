"""Any program that runs to its end and tells metrics in its output or in a JSON file."""

from collections.abc import Callable, Mapping, Sequence

from knowngood.engines.program import require_program
from knowngood.engines.proofs import prove_by_process
from knowngood.engines.python_rules import RULES
from knowngood.model.change import Change
from knowngood.model.diagnosis import LogRule
from knowngood.model.evidence import Proof
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Observed, Readiness


class Command:
    """A benchmark program of the user's own: no readiness, no endpoints."""

    name = "command"
    aliases: Mapping[str, str] = {}
    rules: Sequence[LogRule] = RULES
    readiness: Readiness | None = None
    pages: Sequence[str] = ()

    def resolve(self, spec: LaunchSpec, *, which: Callable[[str], str | None]) -> LaunchSpec:
        """Find the program; it gets no flags of ours.

        Raises:
            UsageError: The program is not there.
        """
        require_program(spec, which=which)
        return spec

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Whether a member reached the process; the program itself tells nothing that is standardised."""
        return prove_by_process(change, observed, aliases=self.aliases)

    def acceptance_length(self, observed: Observed) -> float | None:
        """None: what a program tells are its metrics."""
        del observed
        return None
