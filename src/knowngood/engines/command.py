"""Any program that runs to its end and tells metrics in its output or in a JSON file."""

from knowngood.engines.plain import Plain


class Command(Plain):
    """A benchmark program of the user's own: no readiness, no endpoints."""

    name = "command"
