"""An experiment file becomes a hypothesis."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from knowngood.config.values import (
    check_keys,
    convert,
    nearest,
    omit,
    ratio,
    read_bytes,
    read_toml,
    table_list,
    variable,
    word,
)
from knowngood.errors import UsageError
from knowngood.model.change import Change, ChangeSet, Edit, Env, File, Flag, Patch, Pin, Setting
from knowngood.model.hypothesis import Hypothesis, Prediction, Sign

CHANGE_KEYS: dict[str, tuple[str, ...]] = {
    "edit": ("find", "replace", "count"),
    "patch": ("root",),
    "env": ("value",),
    "flag": ("value", "remove", "append"),
    "file": ("from",),
    "pin": ("deps",),
    "setting": ("value", "read", "write"),
}
GROUP = "group"
"""Key of any change: those of one name are of no use without each other."""
PINNED = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]+\])?==[^*,;\s]+")


def load_experiment(path: Path) -> Hypothesis:
    """Read and check one experiment file.

    Args:
        path: TOML file; paths inside it are relative to its directory.

    Raises:
        UsageError: The file is missing, is no TOML, has an unknown key or a wrong value; the message names it.
    """
    doc = read_toml(path)
    check_keys(doc, {"name", "claim", "because", "predicts", "proves", "requires", "after", "change"}, where=str(path))
    if not isinstance(doc.get("claim"), str):
        raise UsageError(f"{path} has no claim", hint='say what you believe: claim = "…"')
    tables = table_list(doc.get("change", []), where=f"{path} [[change]]")
    return Hypothesis(
        name=str(doc.get("name", path.stem)),
        claim=doc["claim"],
        because=str(doc.get("because", "")),
        changes=ChangeSet(
            members=tuple(
                read_change(table, folder=path.parent, where=f"{path} [[change]] number {number + 1}")
                for number, table in enumerate(tables)
            ),
            groups=read_groups(tables, where=f"{path} [[change]]"),
        ),
        predicts=read_prediction(doc["predicts"], where=f"{path} predicts") if "predicts" in doc else None,
        proves=read_sign(doc["proves"], where=f"{path} proves") if "proves" in doc else None,
        requires=convert(doc.get("requires", []), tuple[str, ...], where=f"{path} requires"),
        after=convert(doc.get("after", []), tuple[str, ...], where=f"{path} after"),
    )


def read_groups(tables: Sequence[Mapping[str, Any]], *, where: str) -> tuple[tuple[int, ...], ...]:
    """Indices of the changes that share a ``group``, in the order in which the groups begin.

    Raises:
        UsageError: The name of a group is no text, or empty.
    """
    groups: dict[str, list[int]] = {}
    for number, table in enumerate(tables):
        name = table.get(GROUP)
        if name is None:
            continue
        if not isinstance(name, str) or not name:
            raise UsageError(f"{where} number {number + 1}: group is {name!r}", hint='a name, such as group = "cache"')
        groups.setdefault(name, []).append(number)
    return tuple(tuple(members) for members in groups.values() if len(members) > 1)


def read_change(table: Mapping[str, Any], *, folder: Path, where: str) -> Change:
    """Check one ``[[change]]``; its kind is the key that names it.

    Raises:
        UsageError: The kind is unknown, a key is unknown or missing, a file is not there.
    """
    kinds = [kind for kind in CHANGE_KEYS if kind in table]
    if len(kinds) != 1:
        known = ", ".join(CHANGE_KEYS)
        unknown = next((key for key in table if key not in (*CHANGE_KEYS, GROUP)), "")
        raise UsageError(
            f"{where} names {len(kinds) or 'no'} kind of change: {dict(table)}", hint=nearest(unknown, known)
        )
    kind = kinds[0]
    check_keys(table, {kind, GROUP, *CHANGE_KEYS[kind]}, where=where)
    table = omit(table, GROUP)
    for key in ("find", "replace", "root", "from"):
        if key in CHANGE_KEYS[kind] and not isinstance(table.get(key), str):
            raise UsageError(f"{where} ({kind}) has no {key}", hint=f"a {kind} needs {', '.join(CHANGE_KEYS[kind])}")
    named = word(table[kind], where=f"{where}: {kind}")
    if not named:
        raise UsageError(f"{where}: {kind} is empty", hint="name what shall change")
    for key in ("root", "from"):
        word(table.get(key, ""), where=f"{where}: {key}")
    value = table.get("value")
    if "\0" in str(value):
        raise UsageError(f"{where}: value holds a NUL", hint="no program can be given one")
    match kind:
        case "edit":
            if not table["find"]:
                raise UsageError(f"{where}: find is empty", hint="give the text to look for")
            return convert({"path": on_host(table["edit"], folder), **omit(table, "edit")}, Edit, where=where)
        case "patch":
            diff = read_bytes(folder / table["patch"], where=where)
            return Patch(name=table["patch"], root=on_host(table["root"], folder), diff=diff)
        case "file":
            content = read_bytes(folder / table["from"], where=where)
            return File(path=on_host(table["file"], folder), content=content, source=table["from"])
        case "env":
            return Env(name=variable(named, where=f"{where}: env"), value=None if value is None else str(value))
        case "pin":
            return read_pin(table, where=where)
        case "setting":
            return read_setting(table, where=where)
        case _:
            return convert(
                {**table, "value": None if value is None else str(value)},
                Flag,
                where=where,
            )


def read_pin(table: Mapping[str, Any], *, where: str) -> Pin:
    """Check a ``pin``: exactly one version."""
    pin = convert({"requirement": str(table["pin"]).replace(" ", ""), **omit(table, "pin")}, Pin, where=where)
    if not PINNED.fullmatch(pin.requirement):
        raise UsageError(f"{where}: pin is {table['pin']!r}", hint='exactly one version, such as "numpy==2.3.1"')
    return pin


def read_setting(table: Mapping[str, Any], *, where: str) -> Setting:
    """Check a ``setting``: a path or sysctl name, or a name with both commands."""
    if "value" not in table:
        raise UsageError(f"{where} (setting) has no value", hint='say what to set: value = "never"')
    values = {**omit(table, "setting"), "name": table["setting"], "value": str(table["value"])}
    setting = convert(values, Setting, where=where)
    if bool(setting.read) != bool(setting.write):
        raise UsageError(f"{where}: read and write belong together", hint="a command that prints it, one that sets it")
    if setting.write and not any("{value}" in word for word in setting.write):
        raise UsageError(f"{where}: write names no {{value}}", hint='such as write = ["tool", "--set", "{value}"]')
    return setting


def on_host(path: str, folder: Path) -> str:
    """Path on the host: ``python:`` and absolute paths stay, others are relative to the experiment file."""
    return path if path.startswith(("python:", "/")) else os.path.realpath(folder / path)


def read_prediction(table: Mapping[str, Any], *, where: str) -> Prediction:
    """Check ``predicts = { metric, change = ["-60%", "-30%"] }``."""
    check_keys(table, {"metric", "change"}, where=where)
    ends = cast("list[object]", table["change"]) if isinstance(table.get("change"), list) else []
    if len(ends) != len(("low", "high")) or not isinstance(table.get("metric"), str):
        raise UsageError(f"{where} is not complete", hint='like { metric = "output_tok_s", change = ["+5%", "+20%"] }')
    low, high = (ratio(end, where=where, least=-1.0) for end in ends)
    if low > high:
        raise UsageError(f"{where}: change goes from {ends[0]} to {ends[1]}", hint="the smaller end first")
    return Prediction(metric=table["metric"], low=low, high=high)


def read_sign(table: Mapping[str, Any], *, where: str) -> Sign:
    """Check ``proves = { log = "REGEX" }`` or ``proves = { metric = "NAME", above = 0 }``."""
    check_keys(table, {"log", "metric", "above"}, where=where)
    sign = convert(dict(table), Sign, where=where)
    if bool(sign.log) == bool(sign.metric):
        raise UsageError(
            f"{where} names {'both' if sign.log else 'neither'} a log line and a metric", hint="one of them"
        )
    try:
        re.compile(sign.log)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"{where}: log is no regular expression: {error}", hint="escape what is meant as it is"
        ) from error
    return sign
