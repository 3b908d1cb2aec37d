"""A file of ``[[knob]]`` tables becomes a space; what `knowngood race` is given becomes a line-up."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from knowngood.config.experiment import load_experiment
from knowngood.config.values import check_keys, convert, nearest, omit, read_toml, seconds, table_list, variable, word
from knowngood.errors import UsageError
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.race import Knob, Scalar, Space

KINDS = ("flag", "env", "setting")
FEWEST = 2
MOST_LAUNCHES = 500
"""Launches where only time is limited."""


class KnobTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[[knob]]``: one value that may be varied, named by ``flag``, ``env`` or ``setting``, as in a ``[[change]]``.

    Attributes:
        flag: Flag as written on the command line, dashes included.
        env: Environment variable of the launch.
        setting: Path below ``/proc/sys`` or ``/sys``, a sysctl name, or any name if there are commands.
        choices: Values to choose from. Of a flag, ``true`` is the bare flag and ``false`` takes it away.
        range: Instead: smallest and largest value.
        step: Distance of the values in a range; whole numbers go by 1, others have all values in between.
        log: Equal ratios are equally interesting, instead of equal distances.
        when: Further knobs, listed before, to the value (or list of values) with which this one takes part. Otherwise
            it stays as the baseline has it.
        read: Of a setting: command that prints its value.
        write: Of a setting: command that sets it, with ``{value}`` among its words.
    """

    flag: str = ""
    env: str = ""
    setting: str = ""
    choices: tuple[Scalar, ...] = ()
    range: tuple[int | float, ...] = ()
    step: int | float = 0
    log: bool = False
    when: dict[str, Any] = {}
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class SpaceTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A knob space.

    Attributes:
        name: In messages; default: the file's stem.
        claim: What is believed of it.
        because: Why.
        budget: Spent on proposals at most: launches, such as ``24``, or time, such as ``"40m"``. The race of the best
            and the confirming trial come on top.
        knob: What may be varied, one table each.
        forbid: Combinations that are never proposed, one table each: knob to the value, or list of values, that must
            not meet.
    """

    knob: list[dict[str, Any]]
    name: str = ""
    claim: str = ""
    because: str = ""
    budget: int | str = 20
    forbid: list[dict[str, Any]] = []


class LineUp(msgspec.Struct, frozen=True, kw_only=True):
    """Who races: hypotheses, or what a space will propose."""

    candidates: tuple[Hypothesis, ...] = ()
    space: Space | None = None


def read_line_up(paths: Sequence[Path]) -> LineUp:
    """Read what shall race: experiment files, or one space.

    Raises:
        UsageError: A file is wrong, two of them have one name, or there is nothing to race.
    """
    docs = {path: read_toml(path) for path in paths}
    spaces = [path for path, doc in docs.items() if "knob" in doc]
    if spaces:
        if len(docs) > 1:
            raise UsageError(f"{spaces[0]} is a knob space, and races alone", hint="name it without other files")
        return LineUp(space=load_space(spaces[0]))
    candidates = tuple(load_experiment(path) for path in docs)
    if len(candidates) < FEWEST:
        raise UsageError("a race needs two candidates at least", hint="knowngood try tests a single one")
    twice = next((one.name for one in candidates if [each.name for each in candidates].count(one.name) > 1), "")
    if twice:
        raise UsageError(f"two candidates are called {twice}", hint="give each its own name")
    return LineUp(candidates=candidates)


def load_space(path: Path) -> Space:
    """Read and check one space file.

    Raises:
        UsageError: The file is missing, is no TOML, has an unknown key or a wrong value; the message names it.
    """
    doc = read_toml(path)
    table_list(doc.get("knob"), where=f"{path} [[knob]]")
    table_list(doc.get("forbid", []), where=f"{path} [[forbid]]")
    table = convert(doc, SpaceTable, where=str(path))
    launches, minutes = read_budget(table.budget, where=f"{path} budget")
    knobs: dict[str, Knob] = {}
    for number, each in enumerate(table.knob):
        knob = read_knob(each, knobs, where=f"{path} [[knob]] number {number + 1}")
        if knob.name in knobs:
            raise UsageError(f"{path}: two knobs are called {knob.name}", hint="put all its choices into one")
        knobs[knob.name] = knob
    rules = (
        read_rule(each, knobs, where=f"{path} [[forbid]] number {number + 1}")
        for number, each in enumerate(table.forbid)
    )
    return Space(
        name=table.name or path.stem,
        claim=table.claim,
        because=table.because,
        knobs=tuple(knobs.values()),
        forbid=tuple(rules),
        launches=launches,
        minutes=minutes,
    )


def read_budget(budget: int | str, *, where: str) -> tuple[int, float]:
    """Most launches, and most minutes (0 sets no limit).

    Raises:
        UsageError: It is no budget.
    """
    if isinstance(budget, int):
        if budget < 1:
            raise UsageError(f"{where} is {budget}", hint="launches, such as 24, or a time, such as 40m")
        return budget, 0.0
    return MOST_LAUNCHES, seconds(budget, where=where, least=1.0) / 60


def read_knob(table: Mapping[str, Any], known: Mapping[str, Knob], *, where: str) -> Knob:
    """Check one ``[[knob]]``.

    Raises:
        UsageError: It has no name or several, no values, or values that make no sense.
    """
    kinds = [kind for kind in KINDS if kind in table]
    found = convert(table, KnobTable, where=where)
    if len(kinds) != 1:
        raise UsageError(f"{where} names {len(kinds) or 'no'} kind of knob", hint=f"one of {', '.join(KINDS)}")
    kind = kinds[0]
    if not word(table[kind], where=f"{where}: {kind}"):
        raise UsageError(f"{where}: {kind} is empty", hint="name what may be varied")
    if kind == "env":
        variable(table[kind], where=f"{where}: env")
    if any("\0" in str(one) for one in found.choices):
        raise UsageError(f"{where}: a choice holds a NUL", hint="no program can be given one")
    if bool(found.choices) == bool(found.range):
        raise UsageError(f"{where} needs choices or a range", hint="choices = [1, 2, 4], or range = [1, 64]")
    if len({str(one) for one in found.choices}) < len(found.choices):
        raise UsageError(f"{where}: a choice is named twice: {list(found.choices)}", hint="take one of them away")
    if kind != "flag" and any(isinstance(one, bool) for one in found.choices):
        raise UsageError(f"{where}: a {kind} cannot be true or false", hint='write the text that it reads, such as "1"')
    if kind == "setting" and bool(found.read) != bool(found.write):
        raise UsageError(f"{where}: read and write belong together", hint="a command that prints it, one that sets it")
    if (found.read or found.write) and (kind != "setting" or not any("{value}" in word for word in found.write)):
        raise UsageError(f"{where}: write names no {{value}}", hint='such as write = ["tool", "--set", "{value}"]')
    low, high, step = read_range(found, where=where) if found.range else (0, 0, 0)
    return convert(
        {
            **omit(omit(omit(table, "range"), "when"), kind),
            "kind": kind,
            "name": str(table[kind]),
            "low": low,
            "high": high,
            "step": step,
            "when": read_rule(found.when, known, where=f"{where} when"),
        },
        Knob,
        where=where,
    )


def read_range(table: KnobTable, *, where: str) -> tuple[float, float, float]:
    """Check ``range``, ``step`` and ``log``; return the ends and the step."""
    if len(table.range) != len(("low", "high")) or not all(math.isfinite(end) for end in table.range):
        raise UsageError(f"{where}: range is {list(table.range)}", hint="smallest and largest value: [1, 64]")
    low, high = table.range
    if not low < high or table.step < 0 or table.step > high - low:
        raise UsageError(f"{where}: from {low} to {high} by {table.step} holds no two values", hint="smallest first")
    if table.log and (low <= 0 or table.step):
        raise UsageError(f"{where}: log goes with a range above 0 and without step", hint="or list the choices")
    whole = all(isinstance(end, int) for end in (low, high, table.step))
    return low, high, table.step or (1 if whole else 0)


def read_rule(table: Mapping[str, Any], knobs: Mapping[str, Knob], *, where: str) -> dict[str, tuple[Scalar, ...]]:
    """Check a table of knob to value or values.

    Raises:
        UsageError: There is no such knob, or it has no such value.
    """
    check_keys(table, set(knobs), where=where)
    rule: dict[str, tuple[Scalar, ...]] = {}
    for name, wanted in table.items():
        rule[name] = convert(
            wanted if isinstance(wanted, list) else [wanted], tuple[Scalar, ...], where=f"{where} {name}"
        )
        choices = knobs[name].choices
        strange = next((one for one in rule[name] if choices and one not in choices), None)
        if strange is not None:
            known = ", ".join(str(one) for one in choices)
            raise UsageError(f"{where}: {name} has no value {strange!r}", hint=nearest(str(strange), known))
    return rule
