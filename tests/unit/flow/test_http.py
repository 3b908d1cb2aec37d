"""A page that is too slow or too large counts as no answer: nothing may hold the tool up, or fill its memory."""

import socket
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager

import pytest

from knowngood.flow import http
from knowngood.flow.http import fetch

HEAD = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def served(parts: Callable[[threading.Event], Iterator[bytes]]) -> Generator[str]:
    """A server that sends these bytes to whoever asks, until it is done or the block ends."""
    over = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            try:
                for part in parts(over):
                    connection.sendall(part)
            except OSError:
                return

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/health"
        finally:
            over.set()
            thread.join(10)


def drip(start: bytes, piece: bytes, gap_s: float) -> Callable[[threading.Event], Iterator[bytes]]:
    def parts(over: threading.Event) -> Iterator[bytes]:
        yield start
        # Not for ever: a fetch without a deadline must fail the test, not hang it.
        until = time.monotonic() + 8
        while not over.wait(gap_s) and time.monotonic() < until:
            yield piece

    return parts


@pytest.mark.parametrize(
    "start",
    [HEAD + b"\r\n", HEAD, b"", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"],
    ids=["body", "head", "-", "chunk"],
)
def test_a_page_that_trickles_in_is_no_answer(start: bytes) -> None:
    with served(drip(start, b"1", 0.05)) as url:
        assert fetch(url, timeout_s=0.4) == (0, "")


@pytest.mark.parametrize("timeout_s", [0.4, 60.0])
def test_a_page_without_an_end_is_no_answer(timeout_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_PAGE", 3_000_000)
    with served(drip(HEAD + b"\r\n", b"x" * 1_000_000, 0)) as url:
        assert fetch(url, timeout_s=timeout_s) == (0, "")


def test_a_page_in_time_is_one() -> None:
    with served(lambda _: iter([HEAD + b"Content-Length: 2\r\n\r\n", b"o", b"k"])) as url:
        assert fetch(url) == (200, "ok")
