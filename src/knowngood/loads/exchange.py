"""One request: what it asked, when its events came, how it ended. Standard library only."""

import json
from typing import Any, Final

from knowngood.loads.http11 import BadResponse, Response
from knowngood.loads.sse import EventStream
from knowngood.loads.window import Phase

_DETAIL: Final = 200
_MOST: Final = 1 << 31

_decode = json.JSONDecoder().decode


class Exchange:
    """A request in flight and its outcome. All times in monotonic nanoseconds.

    Attributes:
        index: Number of the request; below 0 in the warm-up.
        phase: What it is for.
        scheduled: When it was due.
        sent: When the client began to send it.
        asked: Most tokens that it asked for; 0 if that cannot be told.
        times: When each event that carries text arrived.
        ended: When the response, or the attempt, was over; 0 while it is in flight.
        status: HTTP status; 0 if there was none.
        tokens: Tokens of the answer by the server's count; None if it did not say.
        prompt_tokens: Tokens of the prompt by the server's count; None if it did not say.
        error: Kind of failure; empty if all went well.
        detail: What the server or the system said about the failure.
    """

    __slots__ = (
        "_finish_seen",
        "_plain",
        "_response",
        "_stream",
        "asked",
        "detail",
        "ended",
        "error",
        "index",
        "phase",
        "prompt_tokens",
        "scheduled",
        "sent",
        "times",
        "tokens",
    )

    def __init__(self, *, index: int, phase: Phase, scheduled: int, sent: int, asked: int = 0) -> None:
        self.index = index
        self.phase: Phase = phase
        self.scheduled = scheduled
        self.sent = sent
        self.asked = asked
        self.times: list[int] = []
        self.ended = 0
        self.tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.error = ""
        self.detail = ""
        self._response = Response()
        self._stream = EventStream()
        self._plain = b""
        self._finish_seen = False

    @property
    def status(self) -> int:
        """HTTP status; 0 if there was none."""
        return self._response.status

    @property
    def is_reusable(self) -> bool:
        """Whether its connection may carry another request."""
        return not self.error and self._response.is_reusable

    def feed(self, data: bytes, at: int) -> None:
        """Take in bytes that arrived at ``at``."""
        try:
            body = self._response.feed(data)
        except BadResponse as bad:
            self.fail("malformed", str(bad), at)
            return
        if self._is_stream():
            for payload in self._stream.feed(body):
                self._take(payload, at)
                if self.ended:
                    return
        else:
            self._plain = (self._plain + body)[:4096]
        if self._response.complete:
            self._complete(at)

    def close(self, at: int) -> None:
        """Take note that the server closed the connection."""
        try:
            self._response.close()
        except BadResponse as bad:
            if not self._finish_seen:
                self.fail("closed" if not self.times else "truncated", str(bad), at)
                return
        self._complete(at)

    def fail(self, kind: str, detail: str, at: int) -> None:
        """End it as a failure."""
        self.error = kind
        self.detail = detail[:_DETAIL]
        self.ended = at

    def _is_stream(self) -> bool:
        response = self._response
        return response.status == 200 and b"text/event-stream" in response.fields.get(b"content-type", b"")  # noqa: PLR2004

    def _complete(self, at: int) -> None:
        if self.ended:
            return
        if self.status != 200:  # noqa: PLR2004
            self.fail(f"http_{self.status}", self._plain.decode(errors="replace"), at)
        elif not self._is_stream():
            kind = "server_error" if b'"error"' in self._plain else "no_stream"
            self.fail(kind, self._plain.decode(errors="replace"), at)
        elif not self._finish_seen:
            self.fail("truncated", "the stream ended without [DONE] and without a finish_reason", at)
        elif not self.times:
            self.fail("empty", "the stream carried no text", at)
        else:
            self.ended = at

    def _take(self, payload: bytes, at: int) -> None:
        """Take in the data of one server-sent event."""
        if payload == b"[DONE]":
            self._finish_seen = True
            return
        try:
            event: Any = _decode(payload.decode())
            if "error" in event:
                self.fail("server_error", json.dumps(event["error"]), at)
                return
            for choice in event.get("choices") or ():
                if _carries_text(choice):
                    self.times.append(at)
                if choice.get("finish_reason"):
                    self._finish_seen = True
            usage = event.get("usage")
            if usage:
                self._count(usage, at)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
            self.fail("malformed", f"not a completion event ({error}): {payload[:80]!r}", at)

    def _count(self, usage: Any, at: int) -> None:
        """Take in the server's own count; an answer with more tokens than were asked for proves it wrong."""
        tokens, prompt_tokens = int(usage["completion_tokens"]), int(usage["prompt_tokens"])
        if not (0 <= tokens < _MOST and 0 <= prompt_tokens < _MOST):
            raise ValueError("a count of tokens that cannot be")
        if self.asked and tokens > self.asked:
            self.fail("overcounted", f"the server says {tokens} tokens for {self.asked} asked", at)
            return
        self.tokens, self.prompt_tokens = tokens, prompt_tokens


def _carries_text(choice: Any) -> bool:
    """Whether a choice of an event holds output, in either endpoint's dialect; reasoning and tool calls count."""
    if "text" in choice:
        return bool(choice["text"])
    delta: Any = choice.get("delta")
    if not delta:
        return False
    return bool(
        delta.get("content") or delta.get("reasoning_content") or delta.get("reasoning") or delta.get("tool_calls")
    )
