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
from knowngood.model.diagnosis import CAUSES, MAY_BE_HARD, LogRule, Phase, Role

FOLDER = "rules"
"""Where they lie, in the package and in a lab."""
CLASSLESS = ("wrapper", "stage")
GENERAL = ("cuda", "os", "python")
"""Layers below everything: of two rules that find one line that of the other layer counts."""


class RuleTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[[rule]]``: what one kind of line means.

    Attributes:
        id: Name of the rule, unique in its file.
        match: Text of the line, or a list of texts of which one is enough. `*` stands for anything, case does not
            matter, and a text begins and ends at whole words unless a star touches them.
        unless: Texts that must not stand in the line.
        role: `cause`, `warning` (explains a failure that another line reports), `late` (a symptom with a class of its
            own, such as a watchdog), `wrapper` (says only that something else failed), `silent` (the server comes up,
            a feature is not in force), `generic` (an exception whose text tells little) or `stage` (what the server
            is doing).
        cause: Class of the failure ([list](causes.md)); a wrapper has none, a stage only if a log that ends in it tells
            of a failure.
        component: Part that failed; empty takes the file's.
        hard: No setting, package or driver changes the outcome within `scope`.
        conflict: Fixable, but a dead end for a change set that itself sets all of `flags`.
        scope: What the failure is bound to: GPU generation, version, pair of features.
        remedy: What to do; of a wrapper, what to collect.
        retest: What would make it worth another try; a hard rule must say so.
        confidence: From 0 to 1; 0 leaves it to the role.
        explains: Rules (`layer/id`) or classes that this line is the cause of, where a log has both.
        phase: For a stage, how far the server has come: `start`, `load`, `capture` or `serve`.
        phases: Phase to the class that it makes of this failure.
        flags: Flags that the failure is about.
        env: Variables that the failure is about.
        about: Words that tell what it is about, to find the member of a change set that brought it in.
        examples: Lines that the rule finds, at least one.
        counterexamples: Lines that look alike and that it must not find.
    """

    id: str
    match: str | tuple[str, ...]
    unless: tuple[str, ...] = ()
    role: Role = "cause"
    cause: str = ""
    component: str = ""
    hard: bool = False
    conflict: bool = False
    scope: str = ""
    remedy: str = ""
    retest: str = ""
    confidence: float = 0.0
    explains: tuple[str, ...] = ()
    phase: Phase | None = None
    phases: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    examples: tuple[str, ...]
    counterexamples: tuple[str, ...] = ()


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
        checked = convert(table, RuleTable, where=at)
        values = msgspec.structs.asdict(checked)
        texts = (checked.match,) if isinstance(checked.match, str) else checked.match
        values |= {"id": f"{layer}/{checked.id}", "match": texts, "component": checked.component or component}
        rule = LogRule(**values)
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
