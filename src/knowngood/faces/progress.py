"""Progress on stderr: a live line with the time that remains on a terminal, one line a note elsewhere."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.text import Text


class Progress:
    """Shows how long work goes on."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self.bar: Bar | None = None
        self.task: TaskID | None = None
        self.begun = time.monotonic()

    def begin(self, title: str, *, expected_s: float) -> None:
        """A piece of work starts that should take ``expected_s`` seconds; 0 if nobody knows."""
        about = f" (about {max(expected_s / 60, 0.1):.1f} min)" if expected_s else ""
        self.console.print(Text(title, style="bold"), about, sep="", soft_wrap=True)
        self.begun = time.monotonic()
        self.finish()
        if self.console.is_terminal:
            self.bar = Bar(
                SpinnerColumn(),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.description}"),
                console=self.console,
                transient=True,
            )
            self.bar.start()
            self.task = self.bar.add_task(title, total=1.0, left="")

    def advance(self, step: str, share: float) -> None:
        """The work is at ``step``, and ``share`` (0 to 1) of it is done."""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, description=step, completed=share, left=self.remaining(share))

    def note(self, text: str) -> None:
        """Something a reader wants to keep."""
        self.console.print(Text.from_ansi(f"  {text}"), soft_wrap=True)

    def finish(self) -> None:
        """Take the live line away."""
        if self.bar is not None:
            self.bar.stop()
            self.bar = None

    def remaining(self, share: float) -> str:
        """Time left if the work goes on as it did."""
        if share < 0.02:  # noqa: PLR2004  (too early to say)
            return ""
        left = (time.monotonic() - self.begun) * (1 - share) / share
        return f"{left:.0f} s left" if left < 90 else f"{left / 60:.0f} min left"  # noqa: PLR2004

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.finish()
