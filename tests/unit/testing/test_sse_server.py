import http.client
import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import pytest

from knowngood.testing.sse_server import Schedule, serving


def test_tokens_leave_on_an_absolute_schedule() -> None:
    schedule = Schedule(ttft_ms=50, itl_ms=10)
    assert [schedule.offset(token) for token in (0, 1, 100)] == pytest.approx([0.05, 0.06, 1.05])


def test_every_nth_gap_is_a_stall() -> None:
    schedule = Schedule(ttft_ms=0, itl_ms=10, stall_every=3, stall_ms=60)
    offsets = [schedule.offset(token) * 1000 for token in range(8)]
    gaps = [b - a for a, b in pairwise(offsets)]
    assert gaps == pytest.approx([10, 10, 60, 10, 10, 60, 10])


def test_bursts_keep_one_event_per_token_and_packs_do_not() -> None:
    burst = Schedule(ttft_ms=0, itl_ms=10, burst=4).writes(6)
    assert burst == [(0.03, [1, 1, 1, 1]), (0.05, [1, 1])]
    pack = Schedule(ttft_ms=0, itl_ms=10, pack=4).writes(6)
    assert pack == [(0.03, [4]), (0.05, [2])]


@pytest.fixture(name="connection", scope="module")
def serve() -> Iterator[http.client.HTTPConnection]:
    with serving("--ttft-ms", "2", "--itl-ms", "1", "--pack", "2") as url:
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=20)
        yield connection
        connection.close()


def ask(connection: http.client.HTTPConnection, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    connection.request("POST" if body else "GET", path, json.dumps(body) if body else None)
    response = connection.getresponse()
    return response.status, response.read()


def test_it_streams_and_keeps_the_stamps_of_what_it_sent(connection: http.client.HTTPConnection) -> None:
    ask(connection, "/stamps")
    asked = {"prompt": "x", "max_tokens": 5, "stream": True, "stream_options": {"include_usage": True}}
    status, raw = ask(connection, "/v1/completions", asked)
    events = [json.loads(line[6:]) for line in raw.split(b"\n\n") if line.startswith(b"data: {")]
    assert status == 200
    assert [event["choices"][0]["text"] for event in events[:-1]] == [" the the", " the the", " the", ""]
    assert events[-1]["usage"]["completion_tokens"] == 5
    assert raw.endswith(b"data: [DONE]\n\n")
    (stamps,) = json.loads(ask(connection, "/stamps")[1])
    offsets = [(sent - stamps["received"]) / 1e6 for sent in stamps["sent"]]
    # Never early; how late it may be is up to the machine. Received is stamped a moment after its clock is read.
    assert all(offset > due - 0.5 for offset, due in zip(offsets, [3, 5, 6], strict=True))
    assert json.loads(ask(connection, "/stamps")[1]) == []


def test_it_answers_chat_and_whole_answers_too(connection: http.client.HTTPConnection) -> None:
    _, streamed = ask(connection, "/v1/chat/completions", {"messages": [], "max_tokens": 2, "stream": True})
    assert b'"delta":{"content":" the the"}' in streamed
    assert b"usage" not in streamed
    _, whole = ask(connection, "/v1/chat/completions", {"messages": [], "max_tokens": 2})
    assert json.loads(whole)["choices"][0]["message"]["content"] == " the the"


def test_it_tells_what_it_does_not_know(connection: http.client.HTTPConnection) -> None:
    assert ask(connection, "/health") == (200, b'{"status": "ok"}')
    assert json.loads(ask(connection, "/v1/models")[1])["data"][0]["id"] == "mock"
    assert ask(connection, "/nothing")[0] == 404
    connection.request("POST", "/v1/completions", "{no json")
    response = connection.getresponse()
    assert (response.status, b"not JSON" in response.read()) == (400, True)
