"""``knowngood.toml`` and experiment files become values here; unknown keys and wrong types end here, too."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import msgspec

from knowngood.errors import UsageError
from knowngood.model.change import Change, ChangeSet, Edit, Env, File, Flag, Patch, Pin, Setting
from knowngood.model.hypothesis import Hypothesis, Prediction
from knowngood.model.launch import LaunchSpec
from knowngood.model.workload import Lengths, Slo, Workload

T = TypeVar("T")
LAB_FILE = "knowngood.toml"
DEFAULT_WORKLOAD: list[dict[str, Any]] = [{}]
LENGTH_KEYS = ("isl", "osl")
PERCENT = re.compile(r"^([+-]?\d+(?:\.\d+)?)\s*%$")
SPAN = re.compile(r"^(\d+(?:\.\d+)?)\s*(s|m|h)$")
SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class HostTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[host]``: where the server runs.

    Attributes:
        address: ``local``, the machine that knowngood runs on, or ``ssh://NAME``, whatever ``ssh NAME`` reaches.
        managed: Directories whose files `knowngood baseline` records, so that edits by hand are seen and captured;
            absolute, or relative to the lab.
        through: Command that leads further in, such as ``["docker", "exec", "-i", "NAME"]``.
        python: Interpreter there, 3.8 or newer, for our own agent; empty looks for one.
        sudo: Run the agent there as root, by ``sudo -n``.
    """

    address: str = "local"
    managed: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    python: str = ""
    sudo: bool = False

    @property
    def is_local(self) -> bool:
        """Whether paths mean the same there as here."""
        return self.address == "local" and not self.through


class LeaseTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[lease]``: when a host that nobody looks after any more goes back to known-good by itself.

    Attributes:
        ttl: Longest silence of whoever holds the host. A connection that comes back within it loses nothing.
    """

    ttl: str = "2m"


class ServerTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[server]``: how the known-good server is started, before any keep.

    Attributes:
        engine: Name of the engine: ``llamacpp``, ``openai``, ``command`` or a plugin's.
        command: Program and arguments, as a list.
        env: Variables added to the host's environment.
        cwd: Working directory; relative to the lab, on another host to the home directory there.
        address: Address the server listens on.
        port: Port the server listens on; 0 for a program that serves nothing.
        ready_timeout: Longest wait for readiness.
        stop_grace: Time to end by itself before the server is killed.
        python: Interpreter that resolves ``python:PKG/…`` paths; empty means the one in ``command``.
        metrics_file: For ``command``: JSON file with the metrics; empty means the last JSON line of the output.
    """

    engine: str
    command: tuple[str, ...]
    env: dict[str, str] = {}
    cwd: str = ""
    address: str = "127.0.0.1"
    port: int = 0
    ready_timeout: str = "10m"
    stop_grace: str = "10s"
    python: str = ""
    metrics_file: str = ""


class ObjectiveTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[objective]``: the one metric that decides.

    Attributes:
        metric: Name of a metric of the first workload (see docs/explanation/load.md).
        direction: ``higher`` or ``lower`` is better; empty means what the metric's name implies.
        worthwhile: Smallest gain worth keeping.
    """

    metric: str = "output_tok_s"
    direction: Literal["higher", "lower", ""] = ""
    worthwhile: str = "2%"


class VerdictTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[verdict]``: how much evidence is wanted.

    Attributes:
        profile: ``quick``, ``standard``, ``thorough`` or ``explore``.
        baseline_pairs: A/A pairs measured by ``knowngood baseline``.
        foreign_cores: Largest difference in foreign CPU between the arms of a pair, in cores.
    """

    profile: str = "standard"
    baseline_pairs: int = 4
    foreign_cores: float = 0.25


class AnswersTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[answers]``: prompts of the answers guard.

    Attributes:
        prompts: File with one prompt a line; empty means a built-in set.
        count: Number of prompts.
        tokens: Tokens asked for per prompt.
    """

    prompts: str = ""
    count: int = 20
    tokens: int = 48


class LabConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A lab's settings, checked.

    Attributes:
        root: Directory of the lab.
        host: Where the server runs.
        server: How it is started.
        workloads: The first is the objective, further ones are guards.
        objective: The metric that decides.
        worthwhile: Smallest effect worth keeping, as a ratio minus one.
        direction: Whether more or less of the metric is better.
        guards: Metric to largest loss, as a ratio minus one; ``error_rate`` to an absolute rate.
        answers_mode: ``same``, ``equivalent`` or ``off``.
        answers: Prompts of the answers guard.
        verdict: How much evidence is wanted.
        lease: When the host goes back to known-good by itself.
    """

    root: Path
    host: HostTable
    server: ServerTable
    workloads: tuple[Workload, ...]
    objective: ObjectiveTable
    worthwhile: float
    direction: Literal["higher", "lower"]
    guards: dict[str, float]
    answers_mode: Literal["same", "equivalent", "off"]
    answers: AnswersTable
    verdict: VerdictTable
    lease: LeaseTable = LeaseTable()

    @property
    def managed(self) -> tuple[str, ...]:
        """Managed directories, as absolute paths without links, each once."""
        return tuple(dict.fromkeys(str((self.root / folder).resolve()) for folder in self.host.managed))

    @property
    def spec(self) -> LaunchSpec:
        """The launch that ``[server]`` describes."""
        cwd = str((self.root / self.server.cwd).resolve()) if self.host.is_local else self.server.cwd
        return LaunchSpec(
            argv=self.server.command,
            env=dict(self.server.env),
            cwd=cwd,
            address=self.server.address,
            port=self.server.port,
        )


def find_lab(start: Path) -> Path:
    """Directory of the lab that ``start`` lies in: it, or the nearest parent, holds ``knowngood.toml``.

    Raises:
        UsageError: There is none.
    """
    for folder in (start.resolve(), *start.resolve().parents):
        if (folder / LAB_FILE).is_file():
            return folder
    raise UsageError(f"no {LAB_FILE} in {start} or above it", hint="knowngood init -- YOUR SERVER COMMAND writes one")


def load_lab(root: Path) -> LabConfig:
    """Read and check ``knowngood.toml``.

    Args:
        root: Directory of the lab.

    Raises:
        UsageError: The file is missing, is no TOML, has an unknown key or a wrong value; the message names it.
    """
    path = root / LAB_FILE
    doc = read_toml(path)
    tables = {"host", "server", "workload", "objective", "guards", "verdict", "answers", "lease"}
    check_keys(doc, tables, where=f"{path}")
    if "server" not in doc:
        raise UsageError(f"{path} has no [server]", hint='add [server] with engine = "…" and command = ["…"]')
    objective = convert(doc.get("objective", {}), ObjectiveTable, where=f"{path} [objective]")
    guards, answers_mode = read_guards(doc.get("guards", {}), where=f"{path} [guards]")
    config = LabConfig(
        root=root.resolve(),
        host=convert(doc.get("host", {}), HostTable, where=f"{path} [host]"),
        server=convert(doc["server"], ServerTable, where=f"{path} [server]"),
        workloads=read_workloads(doc.get("workload", DEFAULT_WORKLOAD), root=root, where=f"{path} [[workload]]"),
        objective=objective,
        worthwhile=ratio(objective.worthwhile, where=f"{path} [objective] worthwhile"),
        direction=objective.direction or better_direction(objective.metric),
        guards=guards,
        answers_mode=answers_mode,
        answers=convert(doc.get("answers", {}), AnswersTable, where=f"{path} [answers]"),
        verdict=convert(doc.get("verdict", {}), VerdictTable, where=f"{path} [verdict]"),
        lease=convert(doc.get("lease", {}), LeaseTable, where=f"{path} [lease]"),
    )
    if not config.server.command:
        raise UsageError(f"{path} [server] command is empty", hint="give the server's argv as a list")
    seconds(config.lease.ttl, where=f"{path} [lease] ttl")
    seconds(config.server.ready_timeout, where=f"{path} [server] ready_timeout")
    seconds(config.server.stop_grace, where=f"{path} [server] stop_grace")
    return config


def better_direction(metric: str) -> Literal["higher", "lower"]:
    """Direction that a metric's name implies: times, errors and memory are better low."""
    low = metric.endswith(("_ms", "_s_per_request", "_mb")) or metric in {"error_rate", "server_cpu_s"}
    return "lower" if low else "higher"


def read_workloads(tables: object, *, root: Path, where: str) -> tuple[Workload, ...]:
    """Check ``[[workload]]``; ``isl`` and ``osl`` may be a number or a table."""
    loads: list[Workload] = []
    for number, table in enumerate(table_list(tables, where=where)):
        at = f"{where} number {number + 1}"
        filled = dict(table)
        for key in (key for key in LENGTH_KEYS if key in table):
            length = {"mean": table[key]} if isinstance(table[key], int | float) else table[key]
            filled[key] = convert(length, Lengths, where=f"{at} {key}")
        if "slo" in table:
            filled["slo"] = convert(table["slo"], Slo, where=f"{at} slo")
        load = convert(filled, Workload, where=at)
        if load.concurrency and load.rate:
            raise UsageError(f"{at} has both concurrency and rate", hint="closed loop or open loop: take one away")
        if not load.concurrency and not load.rate:
            load = msgspec.structs.replace(load, concurrency=1)
        if load.prompts:
            prompts = root / load.prompts
            if not prompts.is_file():
                raise UsageError(f"{at}: there is no prompt file {prompts}", hint="the path is relative to the lab")
            load = msgspec.structs.replace(load, prompts=str(prompts.resolve()))
        loads.append(load)
    if len({load.name for load in loads}) < len(loads):
        raise UsageError(f"{where}: two workloads have one name", hint="give each its own name")
    return tuple(loads)


def table_list(value: object, *, where: str) -> list[dict[str, Any]]:
    """A TOML list of tables, typed.

    Raises:
        UsageError: It is something else.
    """
    if not isinstance(value, list) or not all(isinstance(table, dict) for table in cast("list[object]", value)):
        raise UsageError(f"{where} must be a list of tables", hint="write its name in double brackets")
    return cast("list[dict[str, Any]]", value)


def read_guards(table: Mapping[str, Any], *, where: str) -> tuple[dict[str, float], Any]:
    """Check ``[guards]``: metric to largest loss, and the answers mode."""
    modes = ("same", "equivalent", "off")
    mode = table.get("answers", "equivalent")
    if mode not in modes:
        raise UsageError(f"{where} answers is {mode!r}", hint=f"one of {', '.join(modes)}")
    limits: dict[str, float] = {"error_rate": 0.0}
    for metric, value in table.items():
        if metric == "answers":
            continue
        limits[metric] = (
            float(value) if isinstance(value, int | float) else abs(ratio(value, where=f"{where} {metric}"))
        )
    return limits, mode


def load_experiment(path: Path) -> Hypothesis:
    """Read and check one experiment file.

    Args:
        path: TOML file; paths inside it are relative to its directory.

    Raises:
        UsageError: The file is missing, is no TOML, has an unknown key or a wrong value; the message names it.
    """
    doc = read_toml(path)
    check_keys(doc, {"name", "claim", "because", "predicts", "requires", "after", "change"}, where=str(path))
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
            )
        ),
        predicts=read_prediction(doc["predicts"], where=f"{path} predicts") if "predicts" in doc else None,
        requires=convert(doc.get("requires", []), tuple[str, ...], where=f"{path} requires"),
        after=convert(doc.get("after", []), tuple[str, ...], where=f"{path} after"),
    )


CHANGE_KEYS: dict[str, tuple[str, ...]] = {
    "edit": ("find", "replace", "count"),
    "patch": ("root",),
    "env": ("value",),
    "flag": ("value", "remove", "append"),
    "file": ("from",),
    "pin": ("deps",),
    "setting": ("value", "read", "write"),
}
PINNED = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?:\[[A-Za-z0-9._,-]+\])?==[^*,;\s]+")


def read_change(table: Mapping[str, Any], *, folder: Path, where: str) -> Change:
    """Check one ``[[change]]``; its kind is the key that names it.

    Raises:
        UsageError: The kind is unknown, a key is unknown or missing, a file is not there.
    """
    kinds = [kind for kind in CHANGE_KEYS if kind in table]
    if len(kinds) != 1:
        known = ", ".join(CHANGE_KEYS)
        unknown = next((key for key in table if key not in CHANGE_KEYS), "")
        raise UsageError(
            f"{where} names {len(kinds) or 'no'} kind of change: {dict(table)}", hint=nearest(unknown, known)
        )
    kind = kinds[0]
    check_keys(table, {kind, *CHANGE_KEYS[kind]}, where=where)
    for key in ("find", "replace", "root", "from"):
        if key in CHANGE_KEYS[kind] and not isinstance(table.get(key), str):
            raise UsageError(f"{where} ({kind}) has no {key}", hint=f"a {kind} needs {', '.join(CHANGE_KEYS[kind])}")
    value = table.get("value")
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
            return Env(name=table["env"], value=None if value is None else str(value))
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
    return path if path.startswith(("python:", "/")) else str((folder / path).resolve())


def omit(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the table without one key."""
    return {name: value for name, value in table.items() if name != key}


def read_prediction(table: Mapping[str, Any], *, where: str) -> Prediction:
    """Check ``predicts = { metric, change = ["-60%", "-30%"] }``."""
    check_keys(table, {"metric", "change"}, where=where)
    ends = cast("list[object]", table["change"]) if isinstance(table.get("change"), list) else []
    if len(ends) != len(("low", "high")) or not isinstance(table.get("metric"), str):
        raise UsageError(f"{where} is not complete", hint='like { metric = "output_tok_s", change = ["+5%", "+20%"] }')
    low, high = sorted(ratio(end, where=where) for end in ends)
    return Prediction(metric=table["metric"], low=low, high=high)


def ratio(text: object, *, where: str) -> float:
    """``"+5%"`` as 0.05.

    Raises:
        UsageError: It is no percentage.
    """
    found = PERCENT.match(text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(f"{where} is {text!r}", hint='a percentage in quotes, such as "2%"')
    return float(found.group(1)) / 100


def seconds(text: str, *, where: str) -> float:
    """``"10m"`` as 600.0.

    Raises:
        UsageError: It is no length of time.
    """
    found = SPAN.match(text)
    if found is None:
        raise UsageError(f"{where} is {text!r}", hint='a time with its unit, such as "90s", "10m" or "2h"')
    return float(found.group(1)) * SECONDS[found.group(2)]


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file.

    Raises:
        UsageError: It cannot be read or is no TOML; the message names the line.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {path}", hint="check the path") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="it must be a UTF-8 text file") from error
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path} is no valid TOML: {error}", hint="strings need quotes, tables [brackets]") from error


def read_bytes(path: Path, *, where: str) -> bytes:
    """Read a file that an experiment names.

    Raises:
        UsageError: It cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"{where}: {path} cannot be read: {error.strerror}", hint="paths are relative to the experiment"
        ) from error


def check_keys(table: Mapping[str, Any], known: set[str], *, where: str) -> None:
    """Refuse unknown keys, naming the nearest known one.

    Raises:
        UsageError: There is an unknown key.
    """
    for key in table:
        if key not in known:
            raise UsageError(f"{where} has an unknown key {key!r}", hint=nearest(key, ", ".join(sorted(known))))


def nearest(key: str, known: str) -> str:
    """Suggest the nearest of ``known`` (comma-separated), or list them all."""
    close = difflib.get_close_matches(key, known.split(", "), n=1)
    return f"did you mean {close[0]!r}?" if close else f"known are: {known}"


def convert(value: Any, kind: type[T], *, where: str) -> T:
    """Turn a TOML value into a typed one.

    Raises:
        UsageError: A key is unknown or a value has the wrong type; the message names both.
    """
    if isinstance(value, Mapping) and issubclass(kind, msgspec.Struct):
        check_keys(cast("Mapping[str, Any]", value), set(kind.__struct_fields__), where=where)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{where}: {error}", hint="see docs/reference/files.md for every key") from error
