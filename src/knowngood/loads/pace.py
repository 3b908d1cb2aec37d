"""When requests are due: a closed loop sends into free slots, an open loop on a schedule. Standard library only."""

import heapq
from collections.abc import Iterator

_NS = 1_000_000_000


class Closed:
    """A fixed number of slots; a request is due when a slot is free. All times in monotonic nanoseconds."""

    def __init__(self, *, slots: int, start: int) -> None:
        self._free = [start] * slots

    def due(self) -> int | None:
        """When the next request is due; None if no slot is free."""
        return self._free[0] if self._free else None

    def take(self) -> int:
        """Use the slot that is due and return when it became free."""
        return heapq.heappop(self._free)

    def release(self, at: int) -> None:
        """Give a slot back from ``at`` on."""
        heapq.heappush(self._free, at)


class Open:
    """Arrivals that do not wait for answers, so that a slow server cannot thin out its own load."""

    def __init__(self, *, arrivals: Iterator[float], start: int) -> None:
        self._arrivals = arrivals
        self._start = start
        self._next = self._draw()

    def due(self) -> int | None:
        """When the next request is due."""
        return self._next

    def take(self) -> int:
        """Use up the arrival that is due and return its scheduled time."""
        taken, self._next = self._next, self._draw()
        return taken

    def release(self, at: int) -> None:
        """Do nothing: no arrival waits for an answer."""

    def _draw(self) -> int:
        return self._start + round(next(self._arrivals) * _NS)
