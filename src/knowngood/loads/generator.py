"""The load generator, a process of its own: ``python -m knowngood.loads.generator PLAN.json``.

Standard library of Python 3.10 only, so that it starts fast and can be sent to a host. It prints JSON lines:
``{"progress": 0.5}``, ``{"mark": "start"}`` and ``{"mark": "end"}`` when the window opens and closes, and last
``{"done": true, ...}`` or ``{"failed": "..."}``. SIGTERM ends it early with its samples written.
"""

import json
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final, NoReturn

from knowngood.loads.arrivals import arrivals
from knowngood.loads.aside import Aside
from knowngood.loads.discover import Failed, connect_once, first_model
from knowngood.loads.exchange import Exchange
from knowngood.loads.pace import Closed, Open
from knowngood.loads.plan import Plan
from knowngood.loads.priority import Priority, current_priority, raise_file_limit, raise_priority
from knowngood.loads.recording import Recorder, Sink
from knowngood.loads.window import Window
from knowngood.loads.wire import CLIENT_LIMITS, Address, Wire, kind_of

_NS: Final = 1_000_000_000
# Housekeeping: samples are flushed and progress is told this often; signals are noticed within it.
_FLUSH_NS: Final = _NS
_TELL_NS: Final = _NS // 5
# A slot whose request failed rests, so that a dead server is not hammered.
_REST_NS: Final = _NS // 10
# Requests are written ahead of time, while there is nothing else to do.
_STOCK: Final = 32


class Generator:
    """Sends what the plan says and records what comes back; one thread, one epoll."""

    def __init__(self, plan: Plan, address: Address, model: str, *, recorder: Recorder, out: Aside) -> None:
        self._plan = plan
        self._address = address
        self._model = model
        self._recorder = recorder
        self._out = out
        start = time.monotonic_ns()
        self._pace = (
            Closed(slots=plan.concurrency, start=start)
            if plan.concurrency
            else Open(arrivals=arrivals(plan.rate, plan.arrivals, seed=plan.seed), start=start)
        )
        self._window = Window(warmup=plan.warmup, requests=plan.requests, duration=round(plan.duration_s * _NS))
        self._indices = plan.indices()
        self._stock: deque[tuple[int, int, bytes]] = deque()
        self._epoll = select.epoll()
        self._idle: list[Wire] = []
        self._busy: dict[int, tuple[Wire, Exchange]] = {}
        self._watched: dict[int, Wire] = {}
        self._deadlines: deque[tuple[int, Exchange]] = deque()
        self._requests: dict[int, bytes] = {}
        self._next_tell = self._next_flush = start
        self._marked: set[str] = set()
        self._cpu_at_start = 0.0
        self.cpu_s = 0.0
        self.is_stopped = False

    def run(self) -> None:
        """Work until everything measured has finished, or ``is_stopped`` is set.

        Raises:
            OSError: Samples cannot be written.
            Failed: The client is at the end of its own means.
        """
        while not self._window.is_over and not self.is_stopped:
            now = time.monotonic_ns()
            self._send_due(now)
            self._expire(now)
            self._window.tick(now)
            self._mark()
            if now >= self._next_tell:
                self._tell(now)
            self._wait(now)
        self._mark()
        self._cut()

    def _wait(self, now: int) -> None:
        """Handle what happened; if nothing did, write a request ahead or sleep until something is due."""
        happened = self._epoll.poll(0)
        if not happened:
            if len(self._stock) < _STOCK:
                self._write_ahead()
                return
            dues = (self._pace.due(), self._window.closes_at(), self._next_tell)
            wait = min(due for due in dues if due is not None) - now
            # select() on the epoll itself: its timeout counts microseconds, that of epoll whole milliseconds.
            if wait > 0:
                select.select([self._epoll], [], [], wait / _NS)
            happened = self._epoll.poll(0)
        for fd, events in happened:
            self._handle(fd, events)

    def _write_ahead(self) -> None:
        index = next(self._indices)
        asked = self._plan.most_tokens(self._plan.wanted(index).tokens)
        self._stock.append((index, asked, self._plan.request(index, model=self._model)))

    def _send_due(self, now: int) -> None:
        due = self._pace.due()
        while due is not None and due <= now and not self._window.is_over:
            scheduled = self._pace.take()
            if not self._stock:
                self._write_ahead()
            index, asked, request = self._stock.popleft()
            sent = time.monotonic_ns()
            phase = self._window.admit(scheduled if self._plan.rate else sent)
            exchange = Exchange(index=index, phase=phase, scheduled=scheduled, sent=sent, asked=asked)
            self._deadlines.append((sent + round(self._plan.timeout_s * _NS), exchange))
            self._send(exchange, request)
            due = self._pace.due()

    def _send(self, exchange: Exchange, request: bytes) -> None:
        wire: Wire | None = None
        try:
            if self._idle:
                wire = self._idle.pop()
                # An idle connection may be closed by the server at any time; then this request may be sent again.
                self._requests[wire.fd] = request
                self._busy[wire.fd] = (wire, exchange)
            else:
                wire = Wire(self._address)
                self._watched[wire.fd] = wire
                self._busy[wire.fd] = (wire, exchange)
                self._epoll.register(wire.fd, select.EPOLLIN)
            if not wire.send(request):
                self._epoll.modify(wire.fd, select.EPOLLIN | select.EPOLLOUT)
        except OSError as failed:
            if wire is None or not self._send_again(wire, exchange):
                self._break(wire, exchange, failed)

    def _handle(self, fd: int, events: int) -> None:
        wire = self._watched.get(fd)
        if wire is None:
            return
        _, exchange = self._busy.get(fd, (wire, None))
        try:
            if events & select.EPOLLOUT:
                wire.check()
                if wire.resume():
                    self._epoll.modify(fd, select.EPOLLIN)
            if events & ~select.EPOLLOUT:
                data, at = wire.receive()
                if exchange is None:
                    # An idle connection has nothing to say: it was closed, or out of step.
                    self._drop(wire)
                elif data:
                    self._requests.pop(fd, None)
                    exchange.feed(data, at)
                elif self._send_again(wire, exchange):
                    return  # the exchange goes on elsewhere, or has failed there and is recorded
                else:
                    exchange.close(at)
        except BlockingIOError:
            return
        except OSError as failed:
            if exchange is None:
                self._drop(wire)
            elif not self._send_again(wire, exchange):
                self._break(wire, exchange, failed)
            return
        if exchange is not None and exchange.ended:
            self._finish(wire, exchange)

    def _send_again(self, wire: Wire, exchange: Exchange) -> bool:
        """Send a request anew if its reused connection was closed before a byte of the answer (RFC 9110, 9.2.2)."""
        request = self._requests.pop(wire.fd, None)
        if request is None:
            return False
        self._drop(wire)
        idle, self._idle = self._idle, []
        try:
            self._send(exchange, request)
        finally:
            self._idle = idle
        return True

    def _break(self, wire: Wire | None, exchange: Exchange, failed: OSError) -> None:
        """End an exchange that the operating system failed."""
        if failed.errno in CLIENT_LIMITS:
            raise Failed(f"the client cannot open one more connection: {failed.strerror}") from failed
        exchange.fail(kind_of(failed), str(failed), time.monotonic_ns())
        self._finish(wire, exchange)

    def _finish(self, wire: Wire | None, exchange: Exchange) -> None:
        """Record an exchange that ended, well or not, and free its connection and its slot."""
        if wire is not None:
            self._requests.pop(wire.fd, None)
            del self._busy[wire.fd]
            if exchange.is_reusable:
                self._idle.append(wire)
            else:
                self._drop(wire)
        self._recorder.request(exchange)
        self._window.finish(exchange.phase, exchange.ended)
        self._pace.release(exchange.ended + (_REST_NS if exchange.error else 0))

    def _drop(self, wire: Wire) -> None:
        self._busy.pop(wire.fd, None)
        self._watched.pop(wire.fd, None)
        if wire in self._idle:
            self._idle.remove(wire)
        wire.close()

    def _expire(self, now: int) -> None:
        """Fail what takes too long. All requests have the same time, so they run out in the order they were sent."""
        deadlines = self._deadlines
        while deadlines and (deadlines[0][1].ended or deadlines[0][0] <= now):
            _, exchange = deadlines.popleft()
            if not exchange.ended:
                wire = next(wire for wire, busy in self._busy.values() if busy is exchange)
                exchange.fail("timeout", f"no end after {self._plan.timeout_s:g} s", now)
                self._finish(wire, exchange)

    def _cut(self) -> None:
        """Break off what is still in flight; its events up to now are recorded."""
        now = time.monotonic_ns()
        for wire, exchange in tuple(self._busy.values()):
            exchange.fail("cut", "still in flight when the pass ended", now)
            self._recorder.request(exchange)
            self._drop(wire)
        for wire in tuple(self._watched.values()):
            self._drop(wire)
        self._epoll.close()

    def _mark(self) -> None:
        """Announce the edges of the window as they come."""
        window = self._window
        if window.start is not None and "start" not in self._marked:
            self._marked.add("start")
            self._cpu_at_start = time.process_time()
            self._out.do(partial(say, mark="start"))
        if window.start is not None and window.end is not None and "end" not in self._marked:
            self._marked.add("end")
            self.cpu_s = time.process_time() - self._cpu_at_start
            self._recorder.window(start=window.start, end=window.end)
            self._out.do(partial(say, mark="end"))

    def _tell(self, now: int) -> None:
        self._next_tell = now + _TELL_NS
        self._out.do(partial(say, progress=round(self._window.share(now), 4)))
        if now >= self._next_flush:
            self._next_flush = now + _FLUSH_NS
            self._recorder.flush()


def main() -> None:
    """Run the plan named on the command line."""
    plan = Plan.from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))

    def open_samples() -> Sink:
        return Path(plan.out).open("wb", buffering=0)

    carry_out(plan, open_samples)


def carry_out(plan: Plan, open_samples: Callable[[], Sink]) -> None:
    """Run a plan and say how it went; its samples go to what ``open_samples`` opens."""
    raise_file_limit()
    try:
        address = connect_once(plan)
        model = plan.model or first_model(plan, address)
    except Failed as failed:
        _fail(str(failed))
    priority = raise_priority()
    try:
        is_done, cpu_s = _measure(plan, address, model, priority, open_samples)
    except Failed as failed:
        _fail(str(failed))
    except BrokenPipeError:  # whoever started this is gone
        sys.exit(1)
    except OSError as failed:
        _fail(f"cannot write the samples to {plan.out}: {failed.strerror}")
    say(done=is_done, cpu_s=cpu_s, priority=current_priority())


def _measure(
    plan: Plan, address: Address, model: str, priority: Priority, open_samples: Callable[[], Sink]
) -> tuple[bool, float]:
    """Run one pass; return whether it came to its end, and the CPU seconds that the client used in the window."""
    about = {"plan": plan.summary(), "model": model, "priority": priority, "unix_time": time.time()}
    recorder = Recorder(open_samples(), origin=time.monotonic_ns(), about=about)
    # A pipe has a lock, and its reader, an ordinary process, may have to wait for the CPU while it holds it.
    out = Aside()
    try:
        generator = Generator(plan, address, model, recorder=recorder, out=out)
        signal.signal(signal.SIGTERM, lambda _signal, _frame: setattr(generator, "is_stopped", True))
        generator.run()
    finally:
        try:
            recorder.close()
        finally:
            out.close()
    return not generator.is_stopped, generator.cpu_s


def _fail(why: str) -> NoReturn:
    say(failed=why)
    sys.exit(1)


_speaking: Final = Lock()


def say(**line: object) -> None:
    """Print a line for whoever started this; threads take turns."""
    with _speaking:
        print(json.dumps(line), flush=True)  # noqa: T201 - the parent reads these lines


if __name__ == "__main__":
    main()
