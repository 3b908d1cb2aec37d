"""What an engine's log says when a feature is really on, or off although it was asked for."""

import re
from collections.abc import Iterable

import msgspec

Said = tuple[bool, str] | None
"""Whether the server says that a member is in force, and how it says so; None if it says nothing."""


class Feature(msgspec.Struct, frozen=True, kw_only=True):
    """A feature that a flag or a variable asks for, and that may stay off without an error.

    Attributes:
        names: Canonical spellings of the flags, or variables, that switch it on.
        on: Regular expression of a line without which it is off; empty if none is known.
        off: Regular expression of a line that says it is off; empty if none is known.
    """

    names: tuple[str, ...]
    on: str = ""
    off: str = ""


def said_of_feature(name: str, features: Iterable[Feature], log: str) -> Said:
    """Look a feature up in the log.

    Args:
        name: Canonical spelling of the flag, or the variable.
        features: The engine's.
        log: The server's log.
    """
    for feature in features:
        if name not in feature.names:
            continue
        line = find_line(feature.off, log)
        if line:
            return False, f"the log says: {line}"
        line = find_line(feature.on, log)
        if line:
            return True, f"the log says: {line}"
        if feature.on:
            return False, f"no line of the log says {feature.on!r}"
    return None


def find_line(pattern: str, log: str) -> str:
    """First line that a pattern fits; empty if none does, or there is no pattern."""
    found = re.search(pattern, log) if pattern else None
    if found is None:
        return ""
    start = log.rfind("\n", 0, found.start()) + 1
    end = log.find("\n", found.end())
    return log[start : end if end >= 0 else len(log)].strip()
