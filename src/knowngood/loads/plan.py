"""What the generator process is told, as JSON. Standard library only."""

import json
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Literal

from knowngood.loads.words import Ask, Draw, ask

_OTHER_LENGTHS: Final = {"max_completion_tokens", "max_new_tokens", "n_predict"}
"""Names that some servers take instead of ``max_tokens``; which one wins is their own matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One pass, complete: nothing in it is looked up again.

    Attributes:
        host: Name or address of the server.
        port: Its TCP port.
        prefix: Path before ``/v1``; empty or begins with a slash.
        out: Samples file to write.
        endpoint: ``completions`` or ``chat``.
        model: Name sent with each request; empty means what the server lists first.
        prompts: Ready-made prompts; empty to generate.
        isl: Input lengths, in tokens.
        osl: Output lengths, in tokens.
        concurrency: Requests kept in flight; 0 for an open loop.
        rate: Requests per second of an open loop.
        arrivals: Their spacing.
        duration_s: Length of the window if ``requests`` is 0.
        requests: Number of measured requests, or 0.
        warmup: Requests before the window.
        timeout_s: A request that takes longer is an error.
        seed: Of prompts, lengths and arrivals; also sent to the server.
        first: Place in the prompts of request 0.
        extra: Further fields of each request body.
    """

    host: str
    port: int
    prefix: str
    out: str
    endpoint: Literal["completions", "chat"]
    model: str
    prompts: tuple[str, ...]
    isl: Draw
    osl: Draw
    concurrency: int
    rate: float
    arrivals: Literal["constant", "poisson"]
    duration_s: float
    requests: int
    warmup: int
    timeout_s: float
    seed: int
    first: int
    extra: dict[str, str | int | float | bool]

    def to_json(self) -> str:
        """Write it down."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Read what ``to_json`` wrote."""
        row: dict[str, Any] = json.loads(text)
        row |= {"isl": Draw(*row["isl"]), "osl": Draw(*row["osl"]), "prompts": tuple(row["prompts"])}
        return cls(**row)

    def summary(self) -> dict[str, object]:
        """Say what is asked for, with the prompts counted instead of spelled out."""
        row: dict[str, object] = {name: getattr(self, name) for name in self.__slots__}
        return {**row, "prompts": len(self.prompts)}

    @property
    def authority(self) -> str:
        """Value of the Host field."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def indices(self) -> "count[int]":
        """Numbers of the requests in the order they are sent: the warm-up below 0, the first measured one is 0."""
        return count(-self.warmup)

    def wanted(self, index: int) -> Ask:
        """Prompt and length of request number ``index``."""
        return ask(self.first + index, isl=self.isl, osl=self.osl, seed=self.seed, prompts=self.prompts)

    def most_tokens(self, tokens: int) -> int:
        """Most tokens that an answer may have.

        Args:
            tokens: Length that was drawn for it.

        Returns:
            That, or what ``extra`` says instead; 0 if that cannot be told.
        """
        if _OTHER_LENGTHS & self.extra.keys():
            return 0
        told = (self.extra.get("max_tokens", tokens), self.extra.get("n", 1), self.extra.get("best_of", 1))
        if not all(isinstance(one, int) for one in told):
            return 0
        length, choices, tried = map(int, told)
        return length * max(choices, tried)

    def request(self, index: int, *, model: str) -> bytes:
        """Write the HTTP request number ``index``."""
        wanted = self.wanted(index)
        chat = self.endpoint == "chat"
        body: dict[str, Any] = {"model": model} if model else {}
        body |= {"messages": [{"role": "user", "content": wanted.prompt}]} if chat else {"prompt": wanted.prompt}
        body |= {
            "max_tokens": wanted.tokens,
            "stream": True,
            "stream_options": {"include_usage": True},
            "ignore_eos": True,
            "temperature": 0,
            "seed": self.seed,
            **self.extra,
        }
        content = json.dumps(body).encode()
        path = f"{self.prefix}/v1/{'chat/completions' if chat else 'completions'}"
        head = (
            f"POST {path} HTTP/1.1\r\nHost: {self.authority}\r\nContent-Type: application/json\r\n"
            f"Accept: text/event-stream\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        return head.encode() + content
