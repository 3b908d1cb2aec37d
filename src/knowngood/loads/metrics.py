"""Metrics that a program tells by itself: a JSON object with numbers in it, whole or in the last line that is one."""

import json
import math
from collections.abc import Iterator
from typing import cast


class NoMetrics(ValueError):
    """There are no metrics in what a program said; the text says why."""


def last_object(text: str) -> tuple[dict[str, float], str]:
    """Find the metrics of a program; nested ones get dotted names.

    Args:
        text: Its output, or the file it wrote.

    Returns:
        The metrics, and the JSON object they were read from.

    Raises:
        NoMetrics: There is no JSON object, or no number in it.
    """
    found = next((one for one in (text, *reversed(text.splitlines())) if _is_object(one)), None)
    if found is None:
        raise NoMetrics("there is no JSON object")
    metrics = dict(_flatten(json.loads(found), ""))
    if not metrics:
        raise NoMetrics("there is no number")
    return metrics, found


def llama_bench(text: str) -> tuple[dict[str, float], str]:
    """Read what ``llama-bench -o jsonl`` printed: one row a test, ``pp512_tok_s``, ``tg128_tok_s``, ``pg…``.

    Args:
        text: Its output.

    Returns:
        Mean tokens per second of each test, and the rows they were read from.

    Raises:
        NoMetrics: There is no such row, or two tests have one name.
    """
    metrics: dict[str, float] = {}
    rows: list[str] = []
    for line in text.splitlines():
        row: dict[str, object] = json.loads(line) if _is_object(line) else {}
        speed = row.get("avg_ts")
        if not isinstance(speed, int | float):
            continue
        name = _test_name(row)
        if name in metrics:
            raise NoMetrics(f"two tests are called {name}: give each parameter one value")
        metrics[name] = float(speed)
        rows.append(line)
    if not rows:
        raise NoMetrics("there is no row of llama-bench: add -o jsonl")
    return metrics, "\n".join(rows) + "\n"


def _test_name(row: dict[str, object]) -> str:
    """Name of a test as llama-bench itself shows it, made a metric's name."""
    prompt, generated, depth = (row.get(field) or 0 for field in ("n_prompt", "n_gen", "n_depth"))
    parts = [f"pp{prompt}"] if prompt else []
    parts += [f"tg{generated}"] if generated else []
    parts += [f"d{depth}"] if depth else []
    return "_".join([*parts, "tok_s"])


def _is_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _flatten(value: object, name: str) -> Iterator[tuple[str, float]]:
    """Yield every number in a JSON value with its dotted name; truth values, nan and infinity are not numbers."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from _flatten(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _flatten(inner, f"{name}.{index}" if name else str(index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = finite(value)
        if number is not None:
            yield name, number


def finite(value: float) -> float | None:
    """A JSON number as a float; None if it is none that can be computed with."""
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None
