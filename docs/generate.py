"""Writes ``docs/reference/`` from the code: ``python docs/generate.py``. A test fails when it was not run."""

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from knowngood import errors
from knowngood.config import experiment, lab, space
from knowngood.config.rules import shipped_rules
from knowngood.faces.cli import COMMANDS, cli
from knowngood.model.diagnosis import CAUSES, MAY_BE_HARD, LogRule
from knowngood.model.steptime import Facts
from knowngood.model.workload import Lengths, Slo, Workload

HERE = Path(__file__).parent / "reference"
NOTE = "<!-- Written by docs/generate.py. Edit the code's docstrings instead. -->\n"


def pages() -> dict[str, str]:
    """Every generated page: file name to text."""
    return {"cli.md": cli_page(), "files.md": files_page(), "errors.md": errors_page(), "causes.md": causes_page()}


def cli_page() -> str:
    """All commands with their options."""
    lines = [NOTE, "# Command line\n", "Results go to stdout, progress to stderr. `--json` prints exactly one object"]
    lines.append("whose `schema` field names its kind and version; errors are objects, too.\n")
    lines += ["| exit status | meaning |", "| --- | --- |"]
    lines += [f"| {status} | {meaning} |" for status, meaning in EXITS.items()]
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None  # noqa: S101  (COMMANDS and the modules belong together; this script is run by hand)
        context = click.Context(command, info_name=f"knowngood {name}")
        lines += [f"\n## knowngood {name}\n", f"{command.help}\n", "```", command.get_usage(context), "```\n"]
        lines += ["| option | meaning |", "| --- | --- |"]
        lines += [f"| `{flags}` | {text} |" for flags, text in options(command, context)]
    return "\n".join(lines).rstrip() + "\n"


EXITS = {
    0: "done, whatever the verdict",
    1: "the trial was void; with `judge`: no verdict yet",
    2: "usage: a flag, a file or a key is wrong; nothing was started",
    3: "the host is quarantined: run `knowngood recover`",
    4: "with `--gate`: not a keep",
    5: "could not run: unreachable, busy, load, store, interrupted, internal error",
}


def options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Flags and help of each option."""
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is not None:
            yield record[0], record[1].replace("|", "\\|")


def files_page() -> str:
    """All keys of the lab file and of experiment files."""
    lines = [NOTE, "# Lab file and experiment files\n", "Unknown keys are errors that name the nearest key.\n"]
    lines.append("## knowngood.toml\n")
    tables: dict[str, type[Any]] = {
        "[host]": lab.HostTable,
        "[server]": lab.ServerTable,
        "[load]": lab.LoadTable,
        "[[workload]]": Workload,
        "[[workload]] isl, osl": Lengths,
        "[[workload]] slo": Slo,
        "[objective]": lab.ObjectiveTable,
        "[verdict]": lab.VerdictTable,
        "[host_guard]": lab.HostGuardTable,
        "[answers]": lab.AnswersTable,
        "[accuracy]": lab.AccuracyTable,
        "[lease]": lab.LeaseTable,
    }
    for title, struct in tables.items():
        lines += keys(title, struct)
    lines.append(GUARDS)
    lines += ["## Experiment files\n", EXPERIMENT]
    lines += ["| kind | further keys |", "| --- | --- |"]
    lines += [
        f"| `{kind}` | {', '.join(f'`{key}`' for key in others)} |" for kind, others in experiment.CHANGE_KEYS.items()
    ]
    lines += ["", FACTS]
    for field in msgspec.structs.fields(Facts):
        lines += [f"### [{field.name}]\n", "| key | default | meaning |", "| --- | --- | --- |"]
        meanings = attributes(field.type)
        lines += [
            f"| `{one.name}` | {default(one)} | {meanings.get(one.name, '')} |"
            for one in msgspec.structs.fields(field.type)
        ]
        lines.append("")
    lines += ["\n## Space files\n", SPACE, *keys("At the top", space.SpaceTable), *keys("[[knob]]", space.KnobTable)]
    lines += ["\n## Rule files\n", RULES, *keys("[[rule]]", LogRule)]
    return "\n".join(lines).rstrip() + "\n"


def keys(title: str, struct: type[Any]) -> list[str]:
    """One table of keys."""
    meanings = attributes(struct)
    rows = [
        f"| `{field.name}` | {default(field)} | {meanings.get(field.name, '')} |"
        for field in msgspec.structs.fields(struct)
    ]
    return [f"### {title}\n", "| key | default | meaning |", "| --- | --- | --- |", *rows, ""]


RULES = """A lab's `rules/*.toml` say what lines of its logs mean, before the rules of the package do. A file has a
`component` and a list of `[[rule]]` tables; its name is the layer ([how they are used](../explanation/diagnosis.md)).
"""
SPACE = """One file is one space: knobs that are varied together ([how to race](../how-to/race.md)).
"""
GUARDS = """### [guards]

Metric to the largest loss allowed, such as `ttft_p99_ms = "+5%"`; `error_rate` to an absolute rate, such as `0`;
`memory` to the largest growth of the server's memory (`"2%"` if not given) or `"off"`; `answers` to `"same"`,
`"equivalent"` (only numerical near ties may differ), `"accuracy"` (the command in `[accuracy]` says what is right) or
`"off"`.
[What each guard does](../explanation/guards.md).
"""
FACTS = """## Facts of a step

What `knowngood explain facts.toml` reads, and what `--set TABLE.KEY=VALUE` sets. Every key is optional;
`[model] config` names a model's `config.json` (Hugging Face), and what stands beside it overrides it.
"""
EXPERIMENT = """One file is one hypothesis: `name` (default: the file's stem), `claim`, `because`,
`predicts = { metric = "itl_p50_ms", change = ["-60%", "-30%"] }`,
`proves = { log = "REGEX" }` or `{ metric = "NAME", above = 0 }` ([what shows that the change was
reached](../explanation/effects.md#the-new-code-was-reached)), `requires`, `after` (names that must be decided first)
and a list of `[[change]]` tables, applied all together or not at all. Any may name a `group`, which
[`isolate`](../how-to/isolate.md) never parts. Each names its kind
([pins and settings](../how-to/pins-and-settings.md)):
"""


def attributes(struct: type[Any]) -> dict[str, str]:
    """Attribute name to meaning, from a Google-style docstring."""
    found: dict[str, str] = {}
    name = ""
    section = inspect.cleandoc(struct.__doc__ or "").partition("Attributes:\n")[2]
    for line in section.splitlines():
        head, colon, text = line.strip().partition(": ")
        if line.startswith("    ") and not line.startswith("     ") and colon:
            name, found[head] = head, text
        elif name and line.strip():
            found[name] += " " + line.strip()
    return {key: text.replace("``", "`").replace("|", "\\|") for key, text in found.items()}


def default(field: msgspec.structs.FieldInfo) -> str:
    """Default of a key, as TOML would say it."""
    if field.default is not msgspec.NODEFAULT:
        value = field.default
    elif field.default_factory is not msgspec.NODEFAULT:
        value = field.default_factory()
    else:
        return "required"
    if isinstance(value, Lengths):
        return f"`{value.mean:g}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    return "" if value is None else f"`{str(value).lower() if isinstance(value, bool) else value}`"


def causes_page() -> str:
    """Classes of failures, and the rules that find them."""
    lines = [
        NOTE,
        "# Causes of failures\n",
        "What `knowngood diagnose` can find, and the rules (layer/name) that find it.\n",
    ]
    lines += ["| cause | meaning | can be a dead end | rules |", "| --- | --- | --- | --- |"]
    for cause, meaning in CAUSES.items():
        rules = [f"`{rule.id}`" for rule in shipped_rules() if cause in (rule.cause, *rule.phases.values())]
        lines.append(f"| `{cause}` | {meaning} | {'yes' if cause in MAY_BE_HARD else 'no'} | {', '.join(rules)} |")
    return "\n".join(lines) + "\n"


def errors_page() -> str:
    """All errors."""
    lines = [NOTE, "# Errors\n", "Every error says what happened, where, what was expected and what to do.\n"]
    lines += ["| error | exit status | meaning |", "| --- | --- | --- |"]
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, errors.KnowngoodError):
            text = inspect.cleandoc(kind.__doc__ or "").splitlines()[0].replace("``", "`")
            lines.append(f"| `{name}` | {kind.exit_status} | {text} |")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    for file, content in pages().items():
        (HERE / file).write_text(content, encoding="utf-8")
