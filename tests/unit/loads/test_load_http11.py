from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowngood.loads.http11 import HEAD_LIMIT, BadResponse, Response

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: Chunked\r\n\r\n"
CHUNKED = HEAD + b"5\r\nhello\r\n6;ext=1\r\n world\r\nA \r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n"
COUNTED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnope"
BODY = b"hello world0123456789"


def encode(chunks: list[bytes]) -> bytes:
    return HEAD + b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


@pytest.mark.parametrize(("raw", "status", "body"), [(CHUNKED, 200, BODY), (COUNTED, 404, b"nope")])
def test_bytes_may_be_cut_at_every_position(raw: bytes, status: int, body: bytes) -> None:
    for cut in range(len(raw) + 1):
        response = Response()
        got = response.feed(raw[:cut])
        assert not response.complete or cut == len(raw)
        got += response.feed(raw[cut:])
        assert (got, response.status, response.complete, response.is_reusable) == (body, status, True, True)


def test_bytes_may_come_one_by_one() -> None:
    response = Response()
    assert b"".join(response.feed(CHUNKED[at : at + 1]) for at in range(len(CHUNKED))) == BODY
    assert response.complete


@given(chunks=st.lists(st.binary(min_size=1, max_size=40), max_size=8), cuts=st.lists(st.integers(0, 400), max_size=10))
def test_any_chunking_and_any_cuts_give_the_same_body(chunks: list[bytes], cuts: list[int]) -> None:
    raw = encode(chunks)
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    response = Response()
    got = b"".join(response.feed(raw[a:b]) for a, b in pairwise(edges))
    assert got == b"".join(chunks)
    assert response.complete


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_give_a_response_or_bad_response(head: bytes, rest: bytes) -> None:
    for raw in (head + rest, HEAD + head + rest):
        response = Response()
        try:
            response.feed(raw[: len(raw) // 2])
            response.feed(raw[len(raw) // 2 :])
            response.close()
        except BadResponse:
            continue
        assert response.complete


def test_chunk_data_is_handed_on_before_the_chunk_is_whole() -> None:
    response = Response()
    assert response.feed(HEAD + b"a\r\n01234") == b"01234"
    assert response.feed(b"56789\r") == b"56789"
    assert response.feed(b"\n0\r\n\r\n") == b""
    assert response.complete


def test_a_body_without_length_ends_with_the_connection() -> None:
    response = Response()
    assert response.feed(b"HTTP/1.1 200 OK\r\n\r\nab") + response.feed(b"cd") == b"abcd"
    assert not response.complete
    response.close()
    assert response.complete
    assert not response.is_reusable


@pytest.mark.parametrize("raw", [CHUNKED, COUNTED])
def test_a_close_before_the_end_is_an_error_at_every_position(raw: bytes) -> None:
    for cut in range(len(raw)):
        response = Response()
        response.feed(raw[:cut])
        with pytest.raises(BadResponse, match="closed before"):
            response.close()


@pytest.mark.parametrize(
    ("head", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: Close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nmore", False),
    ],
)
def test_what_may_be_reused(head: bytes, *, reusable: bool) -> None:
    response = Response()
    response.feed(head)
    assert response.complete
    assert response.is_reusable is reusable


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/2 200\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        HEAD + b"xyz\r\n",
        HEAD + b"-5\r\n",
        HEAD + b"0x5\r\nhello\r\n",
        HEAD + b"\r\n",
        HEAD + b"1" * (HEAD_LIMIT + 1),
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * HEAD_LIMIT,
    ],
)
def test_what_is_no_response(raw: bytes) -> None:
    with pytest.raises(BadResponse):
        Response().feed(raw)
