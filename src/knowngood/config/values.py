"""TOML files and the values in them: percentages, times, lists of tables; unknown keys and wrong types end here."""

import difflib
import math
import os
import re
import stat
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from knowngood.errors import UsageError

T = TypeVar("T")
PERCENT = re.compile(r"^([+-]?\d+(?:\.\d+)?)\s*%$")
SPAN = re.compile(r"^(\d+(?:\.\d+)?)\s*(s|m|h)$")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
LONGEST_S = 366 * 24 * 3600.0
WHOLE = 1 << 63
"""Whole numbers of TOML have 64 bits."""
LARGEST_TEXT = 16_000_000
LARGEST_FILE = 256_000_000
"""Most bytes of a file that is read as a whole."""
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def table_list(value: object, *, where: str) -> list[dict[str, Any]]:
    """A TOML list of tables, typed.

    Raises:
        UsageError: It is something else.
    """
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in cast("list[object]", value)):
        raise UsageError(f"{where} must be a list of tables", hint="write its name in double brackets")
    return cast("list[dict[str, Any]]", value)


def omit(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the table without one key."""
    return {name: value for name, value in table.items() if name != key}


def ratio(text: object, *, where: str, least: float = -math.inf) -> float:
    """``"+5%"`` as 0.05.

    Args:
        text: The percentage.
        where: Its place, for messages.
        least: Smallest that makes sense, as a ratio.

    Raises:
        UsageError: It is no percentage, or below the smallest.
    """
    found = PERCENT.match(text) if isinstance(text, str) else None
    if found is None or not math.isfinite(float(found.group(1))):
        raise UsageError(f"{where} is {text!r}", hint='a percentage in quotes, such as "2%"')
    value = float(found.group(1)) / 100
    if value < least:
        raise UsageError(f"{where} is {text!r}", hint=f"{100 * least:g} % is the smallest that makes sense")
    return value


def seconds(text: str, *, where: str, least: float = 0.0) -> float:
    """``"10m"`` as 600.0.

    Args:
        text: The length of time.
        where: Its place, for messages.
        least: Smallest that makes sense, in seconds.

    Raises:
        UsageError: It is no length of time, below the smallest, or more than a year.
    """
    found = SPAN.match(text)
    if found is None:
        raise UsageError(f"{where} is {text!r}", hint='a time with its unit, such as "90s", "10m" or "2h"')
    value = float(found.group(1)) * SECONDS[found.group(2)]
    if not least <= value <= LONGEST_S:
        raise UsageError(f"{where} is {text!r}", hint=f"from {least:g}s up to a year")
    return value


def word(text: object, *, where: str) -> str:
    """A name, path or argument: a text of one line that a program can be given.

    Raises:
        UsageError: It is no text, or holds a NUL, a line end or another control character.
    """
    if not isinstance(text, str):
        raise UsageError(f"{where} is {text!r}", hint="a text in quotes")
    if CONTROL.search(text):
        raise UsageError(f"{where} is {text!r}", hint="it cannot hold a line end, a NUL or another control character")
    return text


def variable(name: object, *, where: str) -> str:
    """A name that an environment variable can have.

    Raises:
        UsageError: It is empty, or holds ``=`` or a control character.
    """
    found = word(name, where=where)
    if not found or "=" in found:
        raise UsageError(f"{where} is {found!r}", hint="the name alone, without = and value")
    return found


def read_toml(path: Path, *, endless: Collection[str] = ()) -> dict[str, Any]:
    """Parse a TOML file.

    Args:
        path: The file.
        endless: Tables in which ``inf`` has a meaning.

    Raises:
        UsageError: It cannot be read or is no TOML; the message names the line.
    """
    try:
        text = read_file(path, hint="check the path", most=LARGEST_TEXT).decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="it must be a UTF-8 text file") from error
    return parse_toml(text, where=str(path), endless=endless)


def parse_toml(text: str, *, where: str, endless: Collection[str] = ()) -> dict[str, Any]:
    """Parse a TOML text; its numbers are finite, but for ``inf`` in the ``endless`` tables.

    Raises:
        UsageError: It is no TOML, or holds a number that nothing can be; the message names the line or the key.
    """
    try:
        doc = tomllib.loads(text)
        for key, value in doc.items():
            check_numbers(value, where=f"{where} {key}", may_be_endless=key in endless)
    except ValueError as error:
        raise UsageError(f"{where} is no valid TOML: {error}", hint="strings need quotes, tables [brackets]") from error
    except RecursionError as error:
        raise UsageError(f"{where} is nested too deeply", hint="no file needs more than a few levels") from error
    return doc


def check_numbers(value: object, *, where: str, may_be_endless: bool) -> None:
    """Refuse ``nan``, ``inf`` where it has no meaning, and whole numbers beyond 64 bits.

    Raises:
        UsageError: There is one; the message names its key.
    """
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            check_numbers(inner, where=f"{where}.{key}", may_be_endless=may_be_endless)
    elif isinstance(value, list):
        for number, inner in enumerate(cast("list[object]", value), start=1):
            check_numbers(inner, where=f"{where} number {number}", may_be_endless=may_be_endless)
    elif isinstance(value, float):
        if math.isnan(value) or (math.isinf(value) and not (may_be_endless and value > 0)):
            raise UsageError(f"{where} is {value}", hint="a finite number")
    elif isinstance(value, int) and not -WHOLE <= value < WHOLE:
        raise UsageError(f"{where} is a whole number beyond 64 bits", hint="a smaller number")


def read_file(path: Path, *, hint: str, most: int = LARGEST_FILE) -> bytes:
    """Read a file that a user names: never one without an end, and never one that makes us wait.

    Args:
        path: The file.
        hint: What to do about it if it cannot be read.
        most: Most bytes that it may have.

    Raises:
        UsageError: It cannot be read, is no regular file, or has more bytes.
    """
    try:
        # A pipe without a writer would make an ordinary open wait.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise UsageError(f"{path} is no regular file", hint="pipes, devices and directories are not read")
            content = file.read(most + 1)
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", hint=nearest_file(path) or hint) from error
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path} cannot be read: {why}", hint=hint) from error
    if len(content) > most:
        raise UsageError(f"{path} has more than {most // 1_000_000} MB", hint="is it the right file?")
    return content


def read_bytes(path: Path, *, where: str) -> bytes:
    """Read a file that an experiment names.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return read_file(path, hint="paths are relative to the experiment")
    except UsageError as error:
        raise UsageError(f"{where}: {error.message}", hint=error.hint) from error


def check_keys(table: Mapping[str, Any], known: set[str], *, where: str) -> None:
    """Refuse unknown keys, naming the nearest known one.

    Raises:
        UsageError: There is an unknown key.
    """
    for key in table:
        if key not in known:
            raise UsageError(f"{where} has an unknown key {key!r}", hint=nearest(key, ", ".join(sorted(known))))


def nearest_file(path: Path) -> str:
    """Suggest the file beside ``path`` whose name is nearest; empty if none is near."""
    beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
    close = difflib.get_close_matches(path.name, beside, n=1)
    return f"did you mean {str(path.with_name(close[0]))!r}?" if close else ""


def nearest(key: str, known: str) -> str:
    """Suggest the nearest of ``known`` (comma-separated), or list them all."""
    close = difflib.get_close_matches(key, known.split(", "), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are: {known}"


def convert(value: Any, kind: type[T], *, where: str) -> T:
    """Turn a TOML value into a typed one.

    Raises:
        UsageError: A key is unknown or a value has the wrong type; the message names both.
    """
    if isinstance(value, Mapping) and issubclass(kind, msgspec.Struct):
        check_keys(cast("Mapping[str, Any]", value), set(kind.__struct_fields__), where=where)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}", hint="see docs/reference/files.md for every key") from error
