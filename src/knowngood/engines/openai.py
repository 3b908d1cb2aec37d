"""Any server that speaks OpenAI's API; nothing is known of it but its process and its answers."""

from collections.abc import Sequence

from knowngood.engines.plain import Plain
from knowngood.ports import Readiness


class OpenAI(Plain):
    """An OpenAI-compatible server: ready when it lists a model and answers one short request."""

    name = "openai"
    readiness: Readiness | None = Readiness(health="/v1/models", first_answer="/v1/completions")
    pages: Sequence[str] = ("/v1/models", "/metrics")
