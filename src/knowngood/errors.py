"""Every error a user can meet: what happened, where, what was expected, what to do.

Foreign exceptions are mapped to these once, at the rim, with ``from``. A regression is a verdict, never an exception.
"""


class KnowngoodError(Exception):
    """Root of all errors of this package.

    Args:
        message: What happened and where, in one sentence without a final stop.
        hint: What the user can do about it.
        facts: Machine-readable details, shown by ``--json``.
    """

    exit_status = 5

    def __init__(self, message: str, *, hint: str = "", **facts: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts


class UsageError(KnowngoodError):
    """The input is wrong: a file, a flag, a key, a value. Nothing was started."""

    exit_status = 2


class HostError(KnowngoodError):
    """Something on the host stands in the way."""


class Unreachable(HostError):
    """The host, or a program on it, cannot be reached."""


class Busy(HostError):
    """Somebody else holds the host; the facts say who and since when."""


class Refused(HostError):
    """The host cannot take this change set as it stands; nothing was changed."""

    exit_status = 2


class Drift(HostError):
    """A managed file is not what the journal or the baseline says. It is reported, never overwritten."""

    exit_status = 3


class RevertFailed(HostError):
    """The host could not be brought back; it is quarantined until ``knowngood recover``."""

    exit_status = 3


class Quarantined(HostError):
    """Work on the host was cut off; ``knowngood recover`` must run first."""

    exit_status = 3


class LaunchError(KnowngoodError):
    """A server did not come up."""

    exit_status = 1


class Died(LaunchError):
    """The server's process ended before, or while, it was needed."""


class NotReady(LaunchError):
    """The server's process lives but did not become ready in time."""


class CheckFailed(KnowngoodError):
    """A server runs, but is not what was asked for: no effect proof, wrong answers."""

    exit_status = 1


class LoadError(KnowngoodError):
    """The benchmark client could not do its work."""


class StoreError(KnowngoodError):
    """The store could not do its work."""


class Conflict(StoreError):
    """Somebody else appended first; read again and retry."""


class NotFound(StoreError):
    """There is no such trial, launch or artifact."""

    exit_status = 2
