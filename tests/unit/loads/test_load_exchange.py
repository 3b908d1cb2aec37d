import json

import pytest

from knowngood.loads.exchange import Exchange

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def exchange() -> Exchange:
    return Exchange(index=0, phase="measured", scheduled=1, sent=2)


def event(value: object) -> bytes:
    data = b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


def text(content: str, reason: str | None = None) -> bytes:
    return event({"choices": [{"index": 0, "text": content, "finish_reason": reason}], "usage": None})


def delta(**fields: object) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 5}})
DONE = event(b"[DONE]")


def test_a_completion_is_stamped_by_events_with_text_and_counted_by_usage() -> None:
    one = exchange()
    one.feed(HEAD, 10)
    one.feed(text("a"), 20)
    one.feed(text("b") + text("c"), 30)
    one.feed(text("", "length") + USAGE, 40)
    one.feed(DONE + END, 50)
    assert (one.times, one.ended, one.error, one.status) == ([20, 30, 30], 50, "", 200)
    assert (one.tokens, one.prompt_tokens, one.is_reusable) == (5, 7, True)


def test_chat_counts_content_reasoning_and_tool_calls_but_not_the_role() -> None:
    one = exchange()
    one.feed(HEAD + delta(role="assistant", content=""), 1)
    one.feed(delta(content="x"), 2)
    one.feed(delta(reasoning_content="y"), 3)
    one.feed(delta(reasoning="z"), 4)
    one.feed(delta(tool_calls=[{"index": 0}]), 5)
    one.feed(event({"choices": [{"index": 0, "finish_reason": "stop"}]}) + END, 6)
    assert (one.times, one.error) == ([2, 3, 4, 5], "")


def test_a_server_that_closes_after_done_has_said_all() -> None:
    one = exchange()
    one.feed(HEAD + text("a") + DONE, 5)
    one.close(9)
    assert (one.error, one.ended, one.is_reusable) == ("", 9, False)


@pytest.mark.parametrize(
    ("raw", "kind", "detail"),
    [
        (b"HTTP/1.1 503 X\r\nContent-Length: 7\r\n\r\nloading", "http_503", "loading"),
        (b"HTTP/1.1 400 X\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n", "http_400", "bad"),
        (HEAD + event({"error": {"message": "out of memory"}}), "server_error", "out of memory"),
        (HEAD + text("a") + END, "truncated", "without"),
        (HEAD + DONE + END, "empty", "no text"),
        (HEAD + event(b"{no json"), "malformed", "no json"),
        (HEAD + event([1]), "malformed", "not a completion event"),
        (HEAD + event({"choices": [1]}), "malformed", "not a completion event"),
        (HEAD + event({"choices": [], "usage": {"total": 1}}), "malformed", "completion_tokens"),
        (HEAD + b"zz\r\n", "malformed", "chunk size"),
        (b"nonsense\r\n\r\n", "malformed", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", "no_stream", "{}"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"error": {}}', "server_error", "error"),
    ],
)
def test_failures_are_told_apart(raw: bytes, kind: str, detail: str) -> None:
    one = exchange()
    one.feed(raw, 33)
    assert (one.error, one.ended, one.is_reusable) == (kind, 33, False)
    assert detail in one.detail


def test_a_connection_closed_early_is_told_by_how_far_the_answer_was() -> None:
    before, within = exchange(), exchange()
    before.feed(HEAD, 1)
    before.close(2)
    within.feed(HEAD + text("a"), 1)
    within.close(2)
    assert (before.error, within.error) == ("closed", "truncated")


def test_long_details_are_cut() -> None:
    one = exchange()
    one.feed(b"HTTP/1.1 500 X\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000, 1)
    assert one.detail == "x" * 200


def counted(tokens: object, prompt_tokens: object = 7) -> bytes:
    return event({"choices": [], "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens}})


def test_more_tokens_than_were_asked_for_are_an_error_of_their_own() -> None:
    one = Exchange(index=0, phase="measured", scheduled=1, sent=2, asked=16)
    one.feed(HEAD + text("a") * 16 + counted(160) + event(b"[DONE]") + END, 5)
    assert (one.error, one.tokens) == ("overcounted", None)
    assert one.detail == "the server says 160 tokens for 16 asked"


def test_an_event_may_hold_several_tokens() -> None:
    one = Exchange(index=0, phase="measured", scheduled=1, sent=2, asked=16)
    one.feed(HEAD + text("a b c d") * 4 + counted(16) + event(b"[DONE]") + END, 5)
    assert (one.error, one.tokens) == ("", 16)


@pytest.mark.parametrize("tokens", [b"9" * 400, b"1e400", b"NaN", b"-1", b"[" * 100_000 + b"]" * 100_000])
@pytest.mark.parametrize("place", [b"completion_tokens", b"prompt_tokens"])
def test_a_count_that_nothing_can_be_is_malformed(tokens: bytes, place: bytes) -> None:
    usage = {b"completion_tokens": b"1", b"prompt_tokens": b"1", place: tokens}
    fields = b",".join(b'"%b":%b' % pair for pair in usage.items())
    one = exchange()
    one.feed(HEAD + text("a") + event(b'{"usage":{%b}}' % fields), 5)
    assert (one.error, one.tokens, one.prompt_tokens) == ("malformed", None, None)
