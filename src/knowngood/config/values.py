"""TOML files and the values in them: percentages, times, lists of tables; unknown keys and wrong types end here."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from knowngood.errors import UsageError

T = TypeVar("T")
PERCENT = re.compile(r"^([+-]?\d+(?:\.\d+)?)\s*%$")
SPAN = re.compile(r"^(\d+(?:\.\d+)?)\s*(s|m|h)$")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


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


def ratio(text: object, *, where: str) -> float:
    """``"+5%"`` as 0.05.

    Raises:
        UsageError: It is no percentage.
    """
    found = PERCENT.match(text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(f"{where} is {text!r}", hint='a percentage in quotes, such as "2%"')
    return float(found.group(1)) / 100


def seconds(text: str, *, where: str) -> float:
    """``"10m"`` as 600.0.

    Raises:
        UsageError: It is no length of time.
    """
    found = SPAN.match(text)
    if found is None:
        raise UsageError(f"{where} is {text!r}", hint='a time with its unit, such as "90s", "10m" or "2h"')
    return float(found.group(1)) * SECONDS[found.group(2)]


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        UsageError: It cannot be read or is no TOML; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", hint="check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="it must be a UTF-8 text file") from error
    return parse_toml(text, where=str(path))


def parse_toml(text: str, *, where: str) -> dict[str, Any]:
    """Parse a TOML text.

    Raises:
        UsageError: It is no TOML; the message names the line.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{where} is no valid TOML: {error}", hint="strings need quotes, tables [brackets]") from error


def read_bytes(path: Path, *, where: str) -> bytes:
    """Read a file that an experiment names.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{where}: {path} cannot be read: {error.strerror}", hint="paths are relative to the experiment"
        ) from error


def check_keys(table: Mapping[str, Any], known: set[str], *, where: str) -> None:
    """Refuse unknown keys, naming the nearest known one.

    Raises:
        UsageError: There is an unknown key.
    """
    for key in table:
        if key not in known:
            raise UsageError(f"{where} has an unknown key {key!r}", hint=nearest(key, ", ".join(sorted(known))))


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
