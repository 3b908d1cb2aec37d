"""Writes raw samples as they come: JSON lines in whole gzip frames, so that a cut file reads up to its last frame.

Standard library only; ``knowngood.loads.samples`` reads what this writes.
"""

import gzip
import itertools
import json
from collections.abc import Mapping
from functools import partial
from typing import Protocol

from knowngood.loads.aside import Aside
from knowngood.loads.exchange import Exchange


class Sink(Protocol):
    """Where frames go: an unbuffered file, or the way back from another machine."""

    def write(self, data: memoryview, /) -> int | None:
        """Take bytes and tell how many.

        Raises:
            OSError: They cannot be taken.
        """
        ...

    def close(self) -> None:
        """Take no more."""
        ...


class Recorder:
    """An open samples file. Times in it are whole microseconds since ``origin``.

    Args:
        file: Where to write, unbuffered; closed at the end.
        origin: Monotonic nanoseconds that the file calls 0.
        about: What the header says beside the version.

    Raises:
        OSError: The file cannot be written; what earlier flushes wrote stays readable.
    """

    def __init__(self, file: Sink, *, origin: int, about: Mapping[str, object]) -> None:
        self._file = file
        self._origin = origin
        self._lines: list[str] = []
        # A busy disk may hold a write up for longer than a gap between tokens.
        self._aside = Aside()
        self._line({"record": "header", "version": 1, **about})
        self.flush()

    def request(self, exchange: Exchange) -> None:
        """Note a finished request."""
        sent = _us(exchange.sent - self._origin)
        times = [_us(at - self._origin) for at in exchange.times]
        row: dict[str, object] = {
            "record": "request",
            "index": exchange.index,
            "phase": exchange.phase,
            "scheduled_us": _us(exchange.scheduled - self._origin),
            "sent_us": sent,
            "status": exchange.status,
            "e2e_us": _us(exchange.ended - self._origin) - sent,
            # Differences of rounded stamps: their sum is exact, whatever the rounding.
            "ttft_us": times[0] - sent if times else None,
            "gaps_us": [b - a for a, b in itertools.pairwise(times)],
            "tokens": exchange.tokens,
            "prompt_tokens": exchange.prompt_tokens,
        }
        if exchange.error:
            row |= {"error": exchange.error, "detail": exchange.detail}
        self._line(row)

    def window(self, *, start: int, end: int) -> None:
        """Note the measured window."""
        self._line({"record": "window", "start_us": _us(start - self._origin), "end_us": _us(end - self._origin)})

    def flush(self) -> None:
        """Have what was noted written as one gzip frame.

        Raises:
            OSError: An earlier frame could not be written.
        """
        if self._lines:
            self._aside.do(partial(self._write, self._lines))
            self._lines = []

    def close(self) -> None:
        """Write what is left and close.

        Raises:
            OSError: A frame could not be written.
        """
        try:
            self.flush()
        finally:
            try:
                self._aside.close()
            finally:
                self._file.close()

    def _write(self, lines: list[str]) -> None:
        frame = memoryview(gzip.compress("".join(lines).encode(), compresslevel=1, mtime=0))
        # An unbuffered write may be short; on a full disk the next one says why.
        while frame:
            frame = frame[self._file.write(frame) or 0 :]

    def _line(self, row: dict[str, object]) -> None:
        self._lines.append(json.dumps(row, separators=(",", ":")) + "\n")


def _us(ns: int) -> int:
    return round(ns / 1000)
