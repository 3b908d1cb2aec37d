"""Read the root cause out of a log, and name the member of a change set that is to blame.

One pass, constant memory. The first line that a rule knows is the cause: programs print what went wrong before what
follows from it. Where no rule fits, the reader abstains and quotes the last line that looks like an error.
"""

import re
from collections.abc import Iterable, Sequence
from typing import assert_never

import msgspec

from knowngood.model.change import Change, Edit, Env, File, Flag, Patch, Pin, Setting, describe
from knowngood.model.diagnosis import Diagnosis, LogRule

ERROR_WORDS = re.compile(
    r"(?i:\b(?:error|fatal|exception|failed|failure|abort(?:ed)?|killed|panic|traceback)\b)|[A-Z]\w*Error\b"
)
KNOWN, SILENT = 0.9, 0.7
"""Confidence in a rule's line: of a failure; of a feature that is off, which may not be what ended the launch."""


def diagnose(lines: Iterable[str], rules: Sequence[LogRule]) -> Diagnosis:
    """Find the first decisive line.

    Args:
        lines: The log, in order, with or without line ends.
        rules: Causes to look for.

    Returns:
        The cause; a line of a silent rule only if no line tells of a failure. Without either an abstention, cause
        ``unknown``, that quotes the last line that looks like an error.
    """
    known = [(re.compile(rule.pattern), rule) for rule in rules]
    silent: Diagnosis | None = None
    hint, hint_number = "", 0
    for number, line in enumerate(lines, start=1):
        text = line.rstrip("\r\n")
        rule = next((rule for pattern, rule in known if pattern.search(text)), None)
        if rule is not None and not rule.silent:
            return explain(rule, text, number, confidence=KNOWN)
        if rule is not None and silent is None:
            silent = explain(rule, text, number, confidence=SILENT)
        if ERROR_WORDS.search(text):
            hint, hint_number = text, number
    return silent or Diagnosis(cause="unknown", line=hint, line_number=hint_number, abstained=True)


def explain(rule: LogRule, line: str, number: int, *, confidence: float) -> Diagnosis:
    """What a rule says about the line that it matched."""
    return Diagnosis(
        cause=rule.cause,
        line=line,
        line_number=number,
        component=rule.component,
        hard=rule.hard,
        scope=rule.scope,
        remedy=rule.remedy,
        confidence=confidence,
        flags=rule.flags,
    )


def blame(diagnosis: Diagnosis, changes: Sequence[Change]) -> Diagnosis:
    """Name the guilty member of a change set.

    Args:
        diagnosis: What the log said.
        changes: The members.

    Returns:
        The diagnosis with ``member`` set: to the members that the line names, else to those whose flag the failure is
        about; several are joined by ``and``. Unchanged if none fits.
    """
    if diagnosis.abstained:
        return diagnosis
    guilty = [change for change in changes if is_named(change, diagnosis.line)]
    guilty = guilty or [change for change in changes if isinstance(change, Flag) and change.flag in diagnosis.flags]
    return msgspec.structs.replace(diagnosis, member=" and ".join(describe(change) for change in guilty))


def is_named(change: Change, line: str) -> bool:
    """Tell whether a line names a member: its flag, its variable, its file, a value too special for a coincidence."""
    match change:
        case Flag():
            names = [change.flag]
            if change.value is not None and any(mark in change.value for mark in "/.:"):
                names.append(change.value)
        case Env():
            names = [change.name]
        case Edit() | File():
            names = [change.path, change.path.rpartition("/")[2]]
        case Patch():
            names = [change.root]
        case Pin():
            names = [change.package, change.package.replace("-", "_")]
        case Setting():
            names = [change.name]
        case _:
            assert_never(change)
    return any(re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", line) for name in names)
