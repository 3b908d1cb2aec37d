"""The load generator as a guest on another machine: leaves nothing there, its samples go home with what it prints."""

import base64

from knowngood.loads.generator import carry_out, say
from knowngood.loads.plan import Plan


class Home:
    """Where the frames of a samples file go: each becomes a line ``{"frame": BASE64}``."""

    def write(self, data: memoryview, /) -> int:
        """Send a frame."""
        say(frame=base64.b64encode(data).decode("ascii"))
        return len(data)

    def close(self) -> None:
        """Nothing is open."""


def main(plan: str) -> None:
    """Run a plan, given as JSON."""
    carry_out(Plan.from_json(plan), Home)
