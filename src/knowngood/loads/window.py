"""Which requests count: the measured window and its edges, without I/O or clock. Standard library only.

Warm-up requests come first and are not waited for, so the window opens on a loaded server. It opens with the first
measured request. After the last one was sent the load goes on (``filler``) until the last measured one has finished:
none of them is measured on a server that is running empty.
"""

from typing import Literal

Phase = Literal["warmup", "measured", "filler"]


class Window:
    """The measured window of one pass. All times in monotonic nanoseconds.

    Args:
        warmup: Requests before the window.
        requests: Measured requests; the window closes when the last of them has finished. 0: go by ``duration``.
        duration: Length of the window if ``requests`` is 0; what is sent in it is measured to its end.

    Attributes:
        start: When the window opened.
        end: When it closed.
    """

    def __init__(self, *, warmup: int, requests: int, duration: int) -> None:
        self.start: int | None = None
        self.end: int | None = None
        self._warmup = warmup
        self._requests = requests
        self._duration = duration
        self._sent = 0
        self._done = 0

    @property
    def is_over(self) -> bool:
        """Whether the window is closed and all that was measured in it has finished."""
        return self.end is not None and self._done == self._sent

    def admit(self, at: int) -> Phase:
        """Count a request that starts at ``at`` and say what it is for."""
        if self._warmup:
            self._warmup -= 1
            return "warmup"
        if self.start is None:
            self.start = at
        if self._sent >= self._requests if self._requests else at >= self.start + self._duration:
            return "filler"
        self._sent += 1
        return "measured"

    def finish(self, phase: Phase, at: int) -> None:
        """Count a request that finished, well or not."""
        if phase == "measured":
            self._done += 1
            if self._done == self._requests:
                self.end = at

    def tick(self, now: int) -> None:
        """Close a window that goes by time."""
        if self.start is not None and self.end is None and not self._requests and now >= self.start + self._duration:
            self.end = self.start + self._duration

    def closes_at(self) -> int | None:
        """When ``tick`` will close the window; None if a clock does not."""
        return (
            self.start + self._duration if self.start is not None and self.end is None and not self._requests else None
        )

    def share(self, now: int) -> float:
        """Share of the window that is done, from 0 to 1."""
        if self.start is None:
            return 0.0
        if self.is_over:
            return 1.0
        return min(1.0, self._done / self._requests if self._requests else (now - self.start) / self._duration)
