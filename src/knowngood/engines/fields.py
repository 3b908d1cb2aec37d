"""What engines print of their resolved configuration: ``name=value`` pairs in Python's own spelling."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

OPENING, CLOSING, QUOTES = "([{<", ")]}>", "'\""
LEFT_TO_IT = "auto"
"""Value that leaves the choice to the engine: whatever it chose is what was asked for."""


def read_fields(text: str) -> dict[str, str]:
    """Take ``a=1, b='x, y', c=Config(d=2)`` apart at its outer commas.

    Args:
        text: The pairs; it ends where a bracket closes that was not opened.

    Returns:
        Name to value, as it is spelt there.
    """
    found: dict[str, str] = {}
    for part in split(text):
        name, equals, value = part.strip().partition("=")
        if equals and name.isidentifier():
            found[name] = value.strip()
    return found


def read_items(text: str) -> dict[str, str]:
    """The same of ``'a': 1, 'b': 'x'``, the inside of a dictionary."""
    found: dict[str, str] = {}
    for part in split(text):
        name, colon, value = part.strip().partition(":")
        if colon and name[:1] in QUOTES:
            found[name.strip(QUOTES)] = value.strip()
    return found


def split(text: str) -> Iterator[str]:
    """Cut at outer commas, up to the bracket that closes what was opened before."""
    depth, quote, start = 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote and text[at - 1] != "\\" else quote
        elif letter in QUOTES:
            quote = letter
        elif letter in OPENING:
            depth += 1
        elif letter in CLOSING and text[at - 1 : at + 1] != "->":
            depth -= 1
            if depth < 0:
                yield text[start:at]
                return
        elif letter == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


def is_said(asked: str | None, said: str) -> bool | None:
    """Whether a configuration's value is the one that a flag asked for.

    Args:
        asked: The flag's value; None for a bare flag.
        said: The value, in Python's spelling.

    Returns:
        None if the two cannot be compared: the flag holds an object, and the value is spelt otherwise.
    """
    bare = plain(said)
    if asked is None:
        return bare.lower() == "true" if bare.lower() in {"true", "false"} else None
    if asked.lower() == LEFT_TO_IT:
        return True
    if asked[:1] in "{[":
        return is_object_said(asked, said)
    return bare.lower() == asked.lower() or number(bare) == number(asked) is not None


def is_object_said(asked: str, said: str) -> bool | None:
    """Whether every item of a JSON object, or list, is found in a value; None if its names are not the same."""
    try:
        wanted: Any = json.loads(asked)
    except ValueError:
        return None
    inner = said[said.find("(") + 1 :] if "(" in said.partition("{")[0] else said.strip("{}[] ")
    there = {**read_fields(inner), **read_items(inner)}
    if not isinstance(wanted, dict):
        return None
    pairs = cast("Mapping[str, Any]", wanted)
    results = [is_said(spell(value), there[name]) for name, value in pairs.items() if name in there]
    return None if not results or None in results else all(results)


def spell(value: Any) -> str:
    """A JSON value as a flag's value would be spelt."""
    return json.dumps(value) if isinstance(value, dict | list | bool) else str(value)


def plain(said: str) -> str:
    """A value without quotes and without torch's name before a type's."""
    text = said.strip()
    text = text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in QUOTES else text
    return text.removeprefix("torch.")


def number(text: str) -> float | None:
    """A number, or None."""
    try:
        return float(text)
    except ValueError:
        return None
