"""Entry points become ports. Built-ins use the same door as everybody else; a plugin is loaded when it is asked for."""

import difflib
from typing import TYPE_CHECKING, cast

from knowngood.errors import UsageError
from knowngood.ports import Engine

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENGINES = "knowngood.engines"


def entries() -> "dict[str, EntryPoint]":
    """Name to entry point of every engine that is installed."""
    from importlib.metadata import entry_points  # noqa: PLC0415  (10 ms that a quick command does not need)

    return {entry.name: entry for entry in entry_points(group=ENGINES)}


def engine_names() -> tuple[str, ...]:
    """Names of all engines that are installed."""
    return tuple(sorted(entries()))


def load_engine(name: str) -> Engine:
    """Load an engine by its name.

    Raises:
        UsageError: There is none, or it cannot be loaded; the hint names the nearest.
    """
    known = entries()
    if name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"known are: {', '.join(sorted(known))}"
        raise UsageError(f"there is no engine {name!r}", hint=hint)
    try:
        return cast("Engine", known[name].load()())
    except (ImportError, AttributeError, TypeError) as error:
        hint = f"reinstall the package that brings it: {known[name].value}"
        raise UsageError(f"the engine {name!r} cannot be loaded: {error}", hint=hint) from error
