"""Runs made elsewhere become values: CSV with a header, or JSON lines, with the same fields."""

import csv
import difflib
import io
import json
import math
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import cast, get_args

from knowngood.config.values import LARGEST_FILE, read_file
from knowngood.errors import UsageError
from knowngood.model.measured import Measured, Offer, Side

FIELDS = ("arm", "launch", "run", "metric", "value", "time")
REQUIRED = ("arm", "metric", "value")
SIDES: tuple[str, ...] = get_args(Side)
HINT = f"fields: {', '.join(FIELDS)}; one row is one metric of one run"

Row = tuple[int, Mapping[str, object]]


def load_measured(path: Path) -> Offer:
    """Read a file of runs (``-`` is standard input).

    Raises:
        UsageError: It cannot be read, or a row is wrong.
    """
    if str(path) == "-":
        name, content = "standard input", sys.stdin.buffer.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise UsageError(f"{name} has more than {LARGEST_FILE // 1_000_000} MB", hint=HINT)
    else:
        name, content = str(path), read_file(path, hint="name a file, or - for stdin")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text: {error}", hint="save it as UTF-8") from error
    return read_measured(text, name=name)


def read_measured(text: str, *, name: str) -> Offer:
    """Read runs; the format is told by the first character.

    Args:
        text: CSV with a header line, or one JSON object a line.
        name: Of the file, for messages.

    Raises:
        UsageError: A row is wrong; the message names line and column.
    """
    # Spreadsheets put a byte-order mark first.
    text = text.removeprefix("\ufeff")
    rows = list(_json_rows(text, name=name) if text.lstrip().startswith("{") else _csv_rows(text, name=name))
    if not rows:
        raise UsageError(f"{name} has no runs", hint=HINT)
    columns = dict.fromkeys(column for _, row in rows for column in row)
    _check_columns(columns, name=name)
    clock = _Clock()
    runs = tuple(_measured(row, where=f"{name}, line {line}", clock=clock) for line, row in rows)
    _refuse_repeats(runs, [line for line, _ in rows], name=name)
    return Offer(name=name, runs=runs, unread=tuple(column for column in columns if column not in FIELDS))


def _json_rows(text: str, *, name: str) -> Iterator[Row]:
    for line, content in enumerate(text.split("\n"), start=1):
        if not content.strip():
            continue
        try:
            row: object = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{name}, line {line}: not JSON: {error}", hint="one object a line") from error
        if not isinstance(row, dict):
            raise UsageError(f"{name}, line {line}: not a JSON object", hint=HINT)
        yield line, cast("dict[str, object]", row)


def _csv_rows(text: str, *, name: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    try:
        for cells in reader:
            line = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if not header:
                header = [cell.strip().lower() for cell in cells]
                _refuse_twins(header, where=f"{name}, line {line}")
            elif len(cells) > len(header):
                raise UsageError(
                    f"{name}, line {line}: {len(cells)} cells, and the header has {len(header)} columns",
                    hint="put text that holds a comma in double quotes",
                )
            else:
                # What a short row lacks is empty.
                yield line, dict(zip_longest(header, cells, fillvalue=""))
    except csv.Error as error:
        raise UsageError(f"{name}, line {reader.line_num}: not CSV: {error}", hint=HINT) from error


def _refuse_twins(header: list[str], *, where: str) -> None:
    twin = next((column for column in header if header.count(column) > 1), None)
    if twin is not None:
        raise UsageError(f"{where}: two columns are called {twin!r}", hint="give each its own name")


def _check_columns(columns: Mapping[str, object], *, name: str) -> None:
    """Refuse a file without a required column, or with one that looks like a misspelt one."""
    missing = [field for field in FIELDS if field not in columns]
    for column in columns:
        close = [] if column in FIELDS else difflib.get_close_matches(column, missing, n=1)
        if close:
            raise UsageError(f"{name} has an unknown column {column!r}", hint=f"did you mean {close[0]!r}?")
    for field in missing:
        if field in REQUIRED:
            raise UsageError(f"{name} has no column {field!r}, but {', '.join(columns)}", hint=HINT)


def _measured(row: Mapping[str, object], *, where: str, clock: "_Clock") -> Measured:
    arm = _text(row, "arm").lower()
    if arm not in SIDES:
        hint = f"one of {', '.join(SIDES)}; noise is the baseline once more, compared with itself"
        raise UsageError(f"{where}, column arm: {arm!r} is none", hint=hint)
    metric = _text(row, "metric")
    if not metric:
        raise UsageError(f"{where}, column metric: it is empty", hint="name it like output_tok_s or ttft_p99_ms")
    value = _number(_text(row, "value"))
    if value is None or not value > 0:
        hint = "values are numbers above 0; a run that failed has none: leave its row out"
        raise UsageError(f"{where}, column value: {row.get('value')!r} is not a number above 0", hint=hint)
    return Measured(
        arm=cast("Side", arm),
        launch=_text(row, "launch"),
        run=_text(row, "run"),
        metric=metric,
        value=value,
        at=clock.read(_text(row, "time"), where=f"{where}, column time"),
    )


def _text(row: Mapping[str, object], field: str) -> str:
    value = row.get(field)
    return "" if value is None else str(value).strip()


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


class _Clock:
    """Reads times and holds all of a file to one kind."""

    def __init__(self) -> None:
        self._kind = ""

    def read(self, text: str, *, where: str) -> float | None:
        """Return seconds; None for no text.

        Raises:
            UsageError: It is no time, or of another kind than those before.
        """
        if not text:
            return None
        seconds, kind = _number(text), "seconds"
        if seconds is None:
            try:
                stamp = datetime.fromisoformat(text)
            except ValueError as error:
                hint = "seconds on one clock, or a date such as 2026-01-31T14:05:00Z"
                raise UsageError(f"{where}: {text!r} is no time", hint=hint) from error
            kind = "a date with its zone" if stamp.tzinfo else "a date without a zone"
            seconds = (stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp()
        self._kind = self._kind or kind
        if kind != self._kind:
            raise UsageError(f"{where}: {text!r} is {kind}, those before are {self._kind}", hint="use one clock")
        return seconds


def _refuse_repeats(runs: tuple[Measured, ...], lines: list[int], *, name: str) -> None:
    """Refuse one and the same run twice: a file appended to itself would look like twice the evidence."""
    seen: dict[tuple[str, str, str, str], int] = {}
    for run, line in zip(runs, lines, strict=True):
        if not (run.launch and run.run):
            continue
        first = seen.setdefault((run.arm, run.launch, run.run, run.metric), line)
        if first != line:
            raise UsageError(
                f"{name}, line {line}: {run.metric} of {run.arm} launch {run.launch}, run {run.run} "
                f"stands in line {first}, too",
                hint="number the launches of an arm, and the runs of a launch, each once",
            )
