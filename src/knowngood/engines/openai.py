"""Any server that speaks OpenAI's API; nothing is known of it but its process and its answers."""

from collections.abc import Mapping, Sequence

from knowngood.engines.plain import Plain
from knowngood.engines.speculation import acceptance_length
from knowngood.ports import Readiness


class OpenAI(Plain):
    """An OpenAI-compatible server: ready when it lists a model and answers one short request."""

    name = "openai"
    readiness: Readiness | None = Readiness(health="/v1/models", first_answer="/v1/completions")
    pages: Sequence[str] = ("/v1/models", "/metrics")

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """Tokens that one verification yields; None if nothing was drafted, or nobody tells."""
        return acceptance_length(pages, log)
