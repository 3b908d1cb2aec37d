"""Rule files: what the lines of a log mean, one TOML file a layer of the stack, in the package and in a lab.

Every rule carries lines that it must find and lines that it must not. A lab's rules are held against them whenever they
are read, those of the package by its tests.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from knowngood.config.values import check_keys, convert, nearest, parse_toml, read_toml, table_list
from knowngood.errors import UsageError
from knowngood.model.diagnosis import CAUSES, MAY_BE_HARD, LogRule

FOLDER = "rules"
"""Where they lie, in the package and in a lab."""
CLASSLESS = ("wrapper", "stage")
GENERAL = ("cuda", "os", "python")
"""Layers below everything: of two rules that find one line that of the other layer counts."""


@cache
def shipped_layers() -> tuple[str, ...]:
    """Layers that the package has a rule file for."""
    names = (entry.name for entry in (resources.files("knowngood") / FOLDER).iterdir())
    layers = (name.removesuffix(".toml") for name in names if name.endswith(".toml"))
    return tuple(sorted(layers, key=lambda layer: (layer in GENERAL, layer)))


@cache
def shipped_rules(*layers: str) -> tuple[LogRule, ...]:
    """Rules that come with the package.

    Args:
        layers: Names of rule files; none means all.

    Raises:
        UsageError: There is no such layer, or its file is wrong.
    """
    known = shipped_layers()
    for layer in layers:
        if layer not in known:
            raise UsageError(f"there are no rules for the layer {layer!r}", hint=nearest(layer, ", ".join(known)))
    found: list[LogRule] = []
    for layer in layers or known:
        file = resources.files("knowngood") / FOLDER / f"{layer}.toml"
        doc = parse_toml(file.read_text(encoding="utf-8"), where=f"{FOLDER}/{layer}.toml")
        found += read_rules(doc, layer=layer, where=f"{FOLDER}/{layer}.toml")
    return tuple(found)


def lab_rules(root: Path) -> tuple[LogRule, ...]:
    """Rules of a lab: every ``rules/*.toml`` in it.

    Args:
        root: Directory of the lab.

    Raises:
        UsageError: One of them is wrong; the message names file, rule and key.
    """
    found: list[LogRule] = []
    for path in sorted((root / FOLDER).glob("*.toml")):
        rules = read_rules(read_toml(path), layer=path.stem, where=str(path))
        for rule in rules:
            for complaint, hint in line_complaints(rule):
                raise UsageError(f"{path} [[rule]] {rule.id.partition('/')[2]}: {complaint}", hint=hint)
        found += rules
    return tuple(found)


def read_rules(doc: Mapping[str, Any], *, layer: str, where: str) -> tuple[LogRule, ...]:
    """Check one rule file.

    Args:
        doc: The parsed file.
        layer: Layer of the stack that it is about.
        where: Its name, for messages.

    Raises:
        UsageError: A key is unknown or missing, or a value is wrong; the message names file, rule and key.
    """
    check_keys(doc, {"component", "rule"}, where=where)
    component = convert(doc.get("component", layer), str, where=f"{where} component")
    rules: list[LogRule] = []
    for number, table in enumerate(table_list(doc.get("rule", []), where=f"{where} [[rule]]")):
        at = f"{where} [[rule]] {table.get('id') or f'number {number + 1}'}"
        texts = {"match": [table["match"]]} if isinstance(table.get("match"), str) else {}
        checked = convert({**table, **texts}, LogRule, where=at)
        rule = msgspec.structs.replace(checked, id=f"{layer}/{checked.id}", component=checked.component or component)
        for complaint, hint in complaints(rule):
            raise UsageError(f"{at}: {complaint}", hint=hint)
        if rule.id in {other.id for other in rules}:
            raise UsageError(f"{at}: two rules have this id", hint="give each its own id")
        rules.append(rule)
    return tuple(rules)


def complaints(rule: LogRule) -> Iterator[tuple[str, str]]:
    """What is wrong with a rule, each with a hint."""
    for pattern in (*rule.patterns, *rule.exceptions):
        if not pattern.pieces:
            yield f"match or unless: {pattern.text!r} is empty", "write the text that stands in the line"
            return
    for pattern in rule.patterns:
        if not pattern.key:
            hint = "lines are told apart by whole words of at least three letters: add one that no star touches"
            yield f"match: {pattern.text!r} has no whole word", hint
    named = (rule.cause, *rule.phases.values())
    for cause in named:
        if cause and cause not in CAUSES:
            yield f"cause {cause!r} is no class of the taxonomy", nearest(cause, ", ".join(CAUSES))
    if not rule.cause and rule.role not in CLASSLESS:
        yield "cause is missing", "name the class of the failure"
    if rule.hard and rule.cause not in MAY_BE_HARD:
        yield f"hard: {rule.cause} is never a dead end", f"only these can be: {', '.join(sorted(MAY_BE_HARD))}"
    for key in ("scope", "retest"):
        if rule.hard and not getattr(rule, key):
            yield f"{key} is missing", "a dead end without a scope and without an end is wrong sooner or later"
    if rule.conflict and not rule.flags:
        yield "flags is missing", "a conflict is one between flags"
    if rule.role == "stage" and rule.phase is None:
        yield "phase is missing", "say how far the server has come: start, load, capture or serve"
    if rule.role != "stage" and not rule.remedy:
        yield "remedy is missing", "say what to do, or what to collect"
    if not rule.examples:
        yield "examples is empty", "add a line that the rule finds, from a real log"


def line_complaints(rule: LogRule) -> Iterator[tuple[str, str]]:
    """How a rule fails its own lines."""
    for line in rule.examples:
        if not rule.finds(line):
            yield f"examples: the rule does not find {line!r}", "texts begin and end at whole words; * opens them"
    for line in rule.counterexamples:
        if rule.finds(line):
            yield f"counterexamples: the rule finds {line!r}", "narrow match, or add unless"
