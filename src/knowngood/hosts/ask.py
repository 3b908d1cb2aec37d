"""Asking an agent: the type of the call, and its failures as errors of this package."""

from typing import Any, Protocol

from knowngood import errors
from knowngood.errors import HostError, KnowngoodError


class Ask(Protocol):
    """One request to the agent of a host."""

    def __call__(self, verb: str, /, **arguments: Any) -> Any:
        """Ask, and return the answer's value.

        Raises:
            KnowngoodError: What the agent says, or that it cannot be reached.
        """
        ...


def error_of(kind: str, message: str, hint: str, facts: dict[str, Any]) -> KnowngoodError:
    """The error that an agent's failure is here."""
    found = getattr(errors, kind, HostError)
    return found(message, hint=hint, **facts)
