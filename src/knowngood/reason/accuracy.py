"""Accuracy: the same items put to both arms, judged item by item.

A paired test needs far fewer items than two separate accuracies: items that both arms get right, or both get wrong, say
nothing about the difference. Source: statistics of the project's own study, section on guards; half a count added to
each kind of disagreement keeps the interval honest where there are few (Agresti & Min, Statistics in Medicine, 2005).
"""

import json
import math
from collections.abc import Iterator, Mapping
from typing import cast

from knowngood.errors import CheckFailed
from knowngood.model.evidence import AccuracyCheck
from knowngood.reason.guards import GuardResult

ONE_SIDED = 1.645
"""Normal quantile of 95 %."""
POWER = 0.84
"""Normal quantile of 80 %."""
SHOWN = 3
FORM = 'one JSON object an item, such as {"item": "gsm8k-17", "right": true}'


def read_items(text: str) -> dict[str, bool]:
    """Read what an accuracy command printed: one JSON object a line, or one JSON list of them.

    Lines that are no JSON objects with both keys are left out: programs chat.

    Raises:
        CheckFailed: No item, an item twice, or a ``right`` that is neither true nor false.
    """
    found: dict[str, bool] = {}
    for row in objects(text):
        if "item" not in row or "right" not in row:
            continue
        name, right = str(row["item"]), row["right"]
        if right not in (0, 1):
            raise CheckFailed(f"item {name!r} is neither right nor wrong: {right!r}", hint="right is true or false")
        if name in found:
            raise CheckFailed(f"item {name!r} is there twice", hint="each item has one line and a name of its own")
        found[name] = bool(right)
    if not found:
        raise CheckFailed("the accuracy command told of no item", hint=f"it prints {FORM}")
    return found


def objects(text: str) -> Iterator[Mapping[str, object]]:
    """JSON objects of a text: its lines, or the members of the one list that it is."""
    try:
        rows: object = json.loads(text)
    except (ValueError, RecursionError):
        rows = [parsed(line) for line in text.splitlines()]
    for row in cast("list[object]", rows) if isinstance(rows, list) else [rows]:
        if isinstance(row, dict):
            yield cast("dict[str, object]", row)


def parsed(line: str) -> object:
    """JSON value of a line; None if it is none."""
    try:
        return cast("object", json.loads(line))
    except (ValueError, RecursionError):
        return None


def compare_items(base: Mapping[str, bool], mine: Mapping[str, bool]) -> AccuracyCheck:
    """Count where the arms agree and where they do not.

    Raises:
        CheckFailed: They were not given the same items.
    """
    odd = sorted(base.keys() ^ mine.keys())
    if odd:
        raise CheckFailed(
            f"the accuracy command gave the arms different items: {', '.join(odd[:SHOWN])}",
            hint="it must draw the same items each time: fix its seed and its limit",
        )
    return AccuracyCheck(
        items=len(base),
        base_right=sum(base.values()),
        right=sum(mine.values()),
        lost=sum(base[name] and not mine[name] for name in base),
        gained=sum(mine[name] and not base[name] for name in base),
    )


def judge_accuracy(check: AccuracyCheck, *, margin: float) -> GuardResult:
    """Judge the loss of accuracy.

    Args:
        check: What was counted.
        margin: Largest loss allowed, from 0 to 1.

    Returns:
        ``pass`` if the loss is below the margin with 95 % probability, ``fail`` if there is one with 95 % probability
        and it is above the margin, else ``undecided``. The figures say how many items a decision needs.
    """
    lost, gained, items = check.lost + 0.5, check.gained + 0.5, check.items + 2
    loss = (check.lost - check.gained) / check.items
    error = math.sqrt(lost + gained - (lost - gained) ** 2 / items) / items
    change = (check.right - check.base_right) / check.items
    why = (
        f"{check.right} of {check.items} items right, {check.base_right} on the baseline: "
        f"{100 * change:+.1f} points ± {100 * ONE_SIDED * error:.1f}, a loss of {100 * margin:g} is allowed"
    )
    if loss + ONE_SIDED * error <= margin:
        return GuardResult(name="accuracy", state="pass", why=why)
    needed = items_needed((lost + gained) / items, margin)
    why = f"{why}; with as many differences {needed:,} items decide in 80 % of cases"
    is_worse = loss > margin and loss - ONE_SIDED * error > 0
    return GuardResult(name="accuracy", state="fail" if is_worse else "undecided", why=why)


def items_needed(differing: float, margin: float) -> int:
    """Items for 80 % probability that an unharmed candidate passes.

    Args:
        differing: Share of items on which the arms differ, from 0 to 1.
        margin: Largest loss allowed, above 0.
    """
    return math.ceil((ONE_SIDED + POWER) ** 2 * differing / margin**2)
