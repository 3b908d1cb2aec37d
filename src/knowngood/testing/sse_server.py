"""A server that streams completions on an exact schedule: what a benchmark client reports can be checked against it.

Token ``i`` of a request leaves at ``received + ttft + i * itl``, on an absolute schedule that does not drift. The
server stamps what it really did, so its own lateness is no error of the client. Run it as
``python -m knowngood.testing.sse_server --port 0``; the first line it prints is its port. It speaks
``/v1/completions``, ``/v1/chat/completions``, ``/v1/models`` and ``/health``; ``GET /stamps`` returns and forgets its
stamps.
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)
# Above real-time clients, or they would delay what they are held against.
_LEVEL = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When tokens leave, and how they are packed.

    Attributes:
        ttft_ms: From the arrival of a request to its first token.
        itl_ms: Gap between tokens.
        stall_every: Every so many gaps one is a stall; 0 for none.
        stall_ms: Length of a stall, instead of ``itl_ms``.
        burst: Tokens that leave together at the time of the last of them, each in its own event.
        pack: Tokens per event, as some engines send under speculation.
    """

    ttft_ms: float = 50.0
    itl_ms: float = 10.0
    stall_every: int = 0
    stall_ms: float = 0.0
    burst: int = 1
    pack: int = 1

    def offset(self, token: int) -> float:
        """Seconds from the arrival of a request to its token number ``token``, from 0."""
        stalls = token // self.stall_every if self.stall_every else 0
        return (self.ttft_ms + token * self.itl_ms + stalls * (self.stall_ms - self.itl_ms)) / 1000

    def writes(self, tokens: int) -> list[tuple[float, list[int]]]:
        """Lay out an answer: when each write happens, and how many tokens each of its events holds."""
        step = max(1, self.burst) * max(1, self.pack)
        laid: list[tuple[float, list[int]]] = []
        for first in range(0, tokens, step):
            held = min(step, tokens - first)
            events = [min(self.pack, held - at) for at in range(0, held, self.pack)]
            laid.append((self.offset(first + held - 1), events))
        return laid


@dataclass(slots=True)
class Stamps:
    """What happened to one request, in monotonic nanoseconds: when it was received, when each token left."""

    received: int
    sent: list[int] = field(default_factory=list[int])


class Server(asyncio.Protocol):
    """One connection of the server."""

    def __init__(self, schedule: Schedule, log: list[Stamps], loop: asyncio.AbstractEventLoop) -> None:
        self._schedule = schedule
        self._log = log
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, without Nagle's delay."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop sending."""
        del exc
        self._transport = None

    def data_received(self, data: bytes) -> None:
        """Answer every request that is complete."""
        now, stamp = self._loop.time(), time.monotonic_ns()
        self._buffer += data
        while True:
            head, end, rest = self._buffer.partition(b"\r\n\r\n")
            if not end:
                return
            first, *lines = head.decode("latin-1").split("\r\n")
            fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            length = int(fields.get("content-length", "0"))
            if "expect" in fields:
                self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
            if len(rest) < length:
                return
            body, self._buffer = rest[:length], rest[length:]
            self._answer(first.split(" ")[1], body, now=now, stamp=stamp)

    def _answer(self, path: str, body: bytes, *, now: float, stamp: int) -> None:
        if path.startswith("/v1/models"):
            model = {"id": "mock", "object": "model", "created": 1, "owned_by": "knowngood"}
            self._write_json({"object": "list", "data": [model]})
        elif path == "/health":
            self._write_json({"status": "ok"})
        elif path == "/stamps":
            self._write_json([{"received": one.received, "sent": one.sent} for one in self._log])
            self._log.clear()
        elif path.endswith("/completions"):
            try:
                asked: dict[str, Any] = json.loads(body)
            except ValueError:
                self._write_json({"error": {"message": "the body is not JSON"}}, status=400)
                return
            self._complete(asked, chat="chat" in path, size=len(body), now=now, stamp=stamp)
        else:
            self._write_json({"error": {"message": f"no such path: {path}"}}, status=404)

    def _complete(self, asked: dict[str, Any], *, chat: bool, size: int, now: float, stamp: int) -> None:
        tokens = int(asked.get("max_completion_tokens") or asked.get("max_tokens") or 16)
        prompt_tokens = max(1, size // 5)
        usage = {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens}
        stamps = Stamps(stamp)
        self._log.append(stamps)
        if not asked.get("stream"):
            text = " the" * tokens
            choice: dict[str, Any] = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
            whole = {**_shell(chat=chat), "choices": [{"index": 0, "finish_reason": "length", **choice}]}
            self._loop.call_at(now + self._schedule.offset(tokens - 1), self._write_json, {**whole, "usage": usage})
            return
        tail = _event(chat=chat, count=0)
        options: Any = asked.get("stream_options")
        if options and options.get("include_usage"):
            tail += _chunk({**_shell(chat=chat), "choices": [], "usage": usage})
        tail += b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"
        laid = self._schedule.writes(tokens)
        parts = [b"".join(_event(chat=chat, count=count) for count in counts) for _, counts in laid]
        parts[0] = _HEAD + parts[0]
        parts[-1] += tail
        times = [now + at for at, _ in laid]
        self._send(0, times=times, parts=parts, counts=[len(counts) for _, counts in laid], stamps=stamps)

    def _send(self, step: int, *, times: list[float], parts: list[bytes], counts: list[int], stamps: Stamps) -> None:
        """Wait for a step's time, write, go on with the next."""

        def write() -> None:
            if self._transport is None:
                return
            # Loopback delivers within the call, so the stamp before it is the earliest a client can have it.
            stamps.sent.extend([time.monotonic_ns()] * counts[step])
            self._transport.write(parts[step])
            if step + 1 < len(parts):
                self._send(step + 1, times=times, parts=parts, counts=counts, stamps=stamps)

        self._loop.call_at(times[step], write)

    def _write_json(self, value: object, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self._write(
            b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(body))
        )
        self._write(body)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)


def _shell(*, chat: bool) -> dict[str, Any]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    return {"id": "x", "object": kind, "created": 1, "model": "mock"}


def _event(*, chat: bool, count: int) -> bytes:
    """Write one event of ``count`` tokens; none is the event that tells the end."""
    text, reason = " the" * count, None if count else "length"
    choice: dict[str, Any] = {"delta": {"content": text} if count else {}} if chat else {"text": text}
    return _chunk({**_shell(chat=chat), "choices": [{"index": 0, **choice, "finish_reason": reason}]})


def _chunk(value: dict[str, Any]) -> bytes:
    data = b"data: " + json.dumps(value, separators=(",", ":")).encode() + b"\n\n"
    return b"%x\r\n%b\r\n" % (len(data), data)


@contextlib.contextmanager
def serving(*options: str) -> Generator[str]:
    """Run the server in a process of its own.

    Args:
        options: As on its command line, for example ``"--itl-ms", "2"``.

    Yields:
        Its root URL.
    """
    argv = [sys.executable, "-m", "knowngood.testing.sse_server", "--port", "0", *options]
    # The server is this very package, however it was found here.
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            if process.stdout is None:
                raise AssertionError
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def _parse(argv: Sequence[str]) -> tuple[int, bool, Schedule]:
    parser = argparse.ArgumentParser(prog="knowngood.testing.sse_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--realtime", action="store_true", help="keep the schedule on a busy machine, if permitted")
    defaults = Schedule()
    for name in Schedule.__slots__:
        default: float = getattr(defaults, name)
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(default), default=default)
    options = vars(parser.parse_args(argv))
    port, realtime = int(options.pop("port")), bool(options.pop("realtime"))
    return port, realtime, Schedule(**options)


async def _serve(port: int, make: Callable[[], Server]) -> None:
    server = await asyncio.get_running_loop().create_server(make, "127.0.0.1", port, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)  # noqa: T201 - whoever started this reads the port
    await server.serve_forever()


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until killed.

    Args:
        argv: Options as on the command line; None for those of this process.
    """
    port, realtime, schedule = _parse(sys.argv[1:] if argv is None else argv)
    if realtime:
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_LEVEL))
    gc.freeze()
    gc.disable()
    # The timers of epoll count whole milliseconds, those of select() microseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    log: list[Stamps] = []
    with contextlib.suppress(KeyboardInterrupt):
        loop.run_until_complete(_serve(port, lambda: Server(schedule, log, loop)))


if __name__ == "__main__":
    main()
