"""The program of a launch, looked for before anything starts."""

from collections.abc import Callable

from knowngood.errors import UsageError
from knowngood.model.launch import LaunchSpec


def require_program(spec: LaunchSpec, *, which: Callable[[str], str | None]) -> None:
    """Refuse a launch whose program the host does not have.

    Args:
        spec: The launch.
        which: Program to its path on the host, or None.

    Raises:
        UsageError: The program is not there.
    """
    if which(spec.argv[0]) is None:
        raise UsageError(
            f"there is no program {spec.argv[0]!r} on the host",
            hint="write its path in [server] command, or put it on the PATH of the user who starts it",
        )
