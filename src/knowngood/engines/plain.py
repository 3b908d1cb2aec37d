"""What all engines do that have nothing of their own to say."""

from collections.abc import Callable, Mapping, Sequence

from knowngood.config.rules import shipped_rules
from knowngood.engines.program import require_program
from knowngood.engines.proofs import prove_by_process
from knowngood.model.change import Change
from knowngood.model.diagnosis import LogRule
from knowngood.model.evidence import Proof
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Observed, Readiness


class Plain:
    """A program of which nothing is known but its process.

    Attributes:
        layers: Rule files that fit its logs; none means all, since anything may be behind it.
        workers: Regular expression of the titles of processes that compute; a variable must have reached them. Empty if
            the engine's processes have no titles.
    """

    name = "plain"
    aliases: Mapping[str, str] = {}
    readiness: Readiness | None = None
    pages: Sequence[str] = ()
    layers: Sequence[str] = ()
    workers = ""

    @property
    def rules(self) -> Sequence[LogRule]:
        """Rules of its layers."""
        return shipped_rules(*self.layers)

    def resolve(self, spec: LaunchSpec, *, which: Callable[[str], str | None]) -> LaunchSpec:
        """Find the program; it gets no flags of ours.

        Raises:
            UsageError: The program is not there.
        """
        require_program(spec, which=which)
        return spec

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Whether a member reached the process; what the program made of it is another question."""
        return prove_by_process(change, observed, aliases=self.aliases, workers=self.workers)

    def version(self, pages: Mapping[str, str], log: str) -> str:
        """Nothing that is standardised."""
        del pages, log
        return ""

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """Nothing that is standardised."""
        del pages, log
        return None
