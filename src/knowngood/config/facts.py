"""``facts.toml`` and ``--set``: what is known of a step, checked."""

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from knowngood.config.model_shape import load_shape
from knowngood.config.values import check_keys, convert, nearest, omit, read_toml
from knowngood.errors import UsageError
from knowngood.model.steptime import Facts, ModelFacts, WhatIf

SHARES = {"baseline.idle_share", "speculation.idle_share", "claims.idle_share"}
TABLES = Facts.__struct_fields__


def load_facts(path: Path | None, settings: Sequence[str] = ()) -> Facts:
    """Read a facts file, and what the command line sets over it.

    Args:
        path: TOML file with the tables of ``model.steptime.Facts``; None means an empty one. ``model.config`` names a
            model's ``config.json``, relative to the file; what stands beside it overrides it.
        settings: ``TABLE.KEY=VALUE``, each.

    Raises:
        UsageError: A key is unknown, a value of the wrong type, or out of its range.
    """
    where = str(path) if path else "--set"
    doc = read_toml(path) if path else {}
    check_keys(doc, set(TABLES), where=where)
    for setting in settings:
        doc = with_setting(doc, setting)
    model = doc.get("model", {})
    if isinstance(model, dict) and "config" in model:
        table = cast("dict[str, Any]", model)
        folder = path.parent if path else Path()
        shape = load_shape(folder / str(table["config"]))
        doc = {**doc, "model": {**msgspec.to_builtins(shape), **omit(table, "config")}}
    kinds = {field.name: field.type for field in msgspec.structs.fields(Facts)}
    for name, table in doc.items():
        convert(table, kinds[name], where=f"{where} [{name}]")
    facts = convert(doc, Facts, where=where)
    check_ranges(facts, where=where)
    return facts


def with_setting(doc: Mapping[str, Any], setting: str) -> dict[str, Any]:
    """A document with one ``TABLE.KEY=VALUE`` more.

    Raises:
        UsageError: It is not written so, or there is no such table.
    """
    place, eq, text = setting.partition("=")
    table, dot, key = place.strip().partition(".")
    if not (eq and dot and key):
        raise UsageError(f"--set {setting} is none", hint="write --set TABLE.KEY=VALUE, such as baseline.tok_s=82")
    if table not in TABLES:
        raise UsageError(f"--set {setting}: there is no table {table!r}", hint=nearest(table, ", ".join(TABLES)))
    before = doc.get(table, {})
    return {**doc, table: {**(cast("dict[str, Any]", before) if isinstance(before, dict) else {}), key: value_of(text)}}


def value_of(text: str) -> object:
    """A value as TOML has it; anything else is a text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text.strip()


def read_what_if(settings: Sequence[str]) -> WhatIf | None:
    """``allreduce_us=50`` and the like; None without any.

    Raises:
        UsageError: A key is unknown or a value no positive number.
    """
    values: dict[str, object] = {}
    for setting in settings:
        key, eq, text = setting.partition("=")
        if not eq:
            raise UsageError(f"--what-if {setting} is none", hint="write --what-if KEY=VALUE, such as allreduce_us=50")
        values[key.strip()] = value_of(text)
    if not values:
        return None
    what_if = convert(values, WhatIf, where="--what-if")
    check_positive(what_if, where="--what-if")
    return what_if


def check_ranges(facts: Facts, *, where: str) -> None:
    """Refuse what no measurement can be: negative times, shares above 1.

    Raises:
        UsageError: There is one.
    """
    for name in TABLES:
        table = getattr(facts, name)
        check_positive(table, where=f"{where} [{name}]")
        share = getattr(table, "idle_share", None)
        if share is not None and share > 1:
            raise UsageError(f"{where} [{name}] idle_share is {share:g}", hint="a share of 1, such as 0.7")
    if facts.model.experts_per_token > facts.model.experts:
        raise UsageError(f"{where} [model] routes a token to more experts than there are", hint="check experts")


def check_positive(table: msgspec.Struct, *, where: str) -> None:
    """Refuse negative numbers, infinities, and a zero where only more makes sense.

    Raises:
        UsageError: There is one; the message names its key.
    """
    for key in table.__struct_fields__:
        value = getattr(table, key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        zero_allowed = key in {"draft_ms", "overhead_ms", "collective_ms", "idle_share", "drafts", "compute_ms"}
        zero_allowed = zero_allowed or (isinstance(table, ModelFacts) and key not in {"layers", "hidden"})
        if not 0 <= value < float("inf") or (value == 0 and not zero_allowed):
            raise UsageError(f"{where} {key} is {value:g}", hint="a number above zero")
