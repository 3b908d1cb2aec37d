"""Any server that speaks OpenAI's API; nothing is known of it but its process and its answers."""

from collections.abc import Callable, Mapping, Sequence

from knowngood.engines.program import require_program
from knowngood.engines.proofs import prove_by_process
from knowngood.engines.python_rules import RULES
from knowngood.engines.speculation import acceptance_length
from knowngood.model.change import Change
from knowngood.model.diagnosis import LogRule
from knowngood.model.evidence import Proof
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Observed, Readiness


class OpenAI:
    """An OpenAI-compatible server: ready when it lists a model and answers one short request."""

    name = "openai"
    aliases: Mapping[str, str] = {}
    rules: Sequence[LogRule] = RULES
    readiness: Readiness | None = Readiness(health="/v1/models", first_answer="/v1/completions")
    pages: Sequence[str] = ("/v1/models", "/metrics")

    def resolve(self, spec: LaunchSpec, *, which: Callable[[str], str | None]) -> LaunchSpec:
        """Find the program; it gets no flags of ours.

        Raises:
            UsageError: The program is not there.
        """
        require_program(spec, which=which)
        return spec

    def prove(self, change: Change, observed: Observed) -> Proof:
        """Whether a member reached the process; the server itself tells nothing that is standardised."""
        return prove_by_process(change, observed, aliases=self.aliases)

    def acceptance_length(self, observed: Observed) -> float | None:
        """Tokens per verification under speculation; None if nothing was drafted, or nobody tells."""
        return acceptance_length(observed)
