"""``knowngood.toml`` becomes a value."""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from knowngood.config.values import check_keys, convert, ratio, read_toml, seconds, table_list, variable, word
from knowngood.errors import UsageError
from knowngood.model.amounts import Count, Limit, Port, Some
from knowngood.model.launch import LaunchSpec
from knowngood.model.workload import Lengths, Slo, Workload

LAB_FILE = "knowngood.toml"
DEFAULT_WORKLOAD: list[dict[str, Any]] = [{}]
LENGTH_KEYS = ("isl", "osl")
TABLES = {
    "accuracy", "answers", "guards", "host", "host_guard", "lease", "load", "objective", "server", "verdict",
    "workload",
}  # fmt: skip
ENDLESS = {"host_guard", "verdict"}
"""Tables with limits, of which ``inf`` is none."""
GOODPUT = "goodput_s"
MEMORY_LIMIT = 0.02

AnswersMode = Literal["same", "equivalent", "accuracy", "off"]


class HostTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[host]``: where the server runs.

    Attributes:
        address: ``local``, the machine that knowngood runs on, or ``ssh://NAME``, whatever ``ssh NAME`` reaches.
        managed: Directories whose files `knowngood baseline` records, so that edits by hand are seen and captured;
            absolute, or relative to the lab.
        through: Command that leads further in, such as ``["docker", "exec", "-i", "NAME"]``.
        python: Interpreter there, 3.8 or newer, for our own agent; empty looks for one.
        sudo: Run the agent there as root, by ``sudo -n``.
        load_from: Where the load comes from: ``here``, through a forwarded port, or the ``host`` itself, which needs
            Python 3.10 there, and leaves the line between out of what is measured.
    """

    address: str = "local"
    managed: tuple[str, ...] = ()
    through: tuple[str, ...] = ()
    python: str = ""
    sudo: bool = False
    load_from: Literal["here", "host"] = "here"

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
        engine: Name of the engine: ``llamacpp``, ``vllm``, ``sglang``, ``trtllm``, ``openai``, ``command`` or a
            plugin's.
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
    port: Port = 0
    ready_timeout: str = "10m"
    stop_grace: str = "10s"
    python: str = ""
    metrics_file: str = ""


class LoadTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[load]``: who makes the load (see docs/how-to/own-benchmark.md).

    Attributes:
        client: ``knowngood`` is the built-in client; ``aiperf``, ``guidellm``, ``sglang`` (its ``bench_serving``) and
            ``vllm`` (``vllm bench serve``) are others'; ``command`` is any program; ``llama-bench`` goes with
            ``[server] engine = "command"``.
        program: Program and first arguments, as a list; empty means the client's own name, found on PATH.
        args: Arguments put last. For ``command``, these and ``program`` may hold ``{url}``, ``{model}``,
            ``{tokenizer}``, ``{concurrency}``, ``{rate}``, ``{requests}``, ``{duration_s}``, ``{isl}``, ``{osl}``,
            ``{seed}`` and ``{out}``, a file for the metrics.
        env: Variables added to our own environment.
        tokenizer: Directory or name of a tokenizer for another's client; empty leaves it to the client.
        timeout: Longest that a pass of another's client may take.
    """

    client: Literal["knowngood", "aiperf", "command", "guidellm", "llama-bench", "sglang", "vllm"] = "knowngood"
    program: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    tokenizer: str = ""
    timeout: str = "30m"


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
        foreign_cores: Largest difference in foreign CPU between the arms of a pair, in cores; other conditions are in
            ``[host_guard]``.
        self_test_every: Decided trials after which the engine tests itself by an A/A trial; 0 for never.
        champion_every: Keeps after which all of them together are compared with the original; 0 for never.
    """

    profile: str = "standard"
    baseline_pairs: Some = 4
    foreign_cores: Limit = 0.25
    self_test_every: Count = 20
    champion_every: Count = 5


class HostGuardTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[host_guard]``: how far host conditions may differ between the arms of a pair; ``inf`` does not watch one.

    Attributes:
        swap_mb: Memory swapped in and out during the measurement, in MB.
        memory_wait: Share of the time in which some process waited for memory, from 0 to 1.
        cpu_throttles: How often the CPU was slowed for its temperature.
        gpu_slowed: Accelerators that heat or their supply slows.
        foreign_processes: Processes of others on accelerators.
        server_age_s: How long a server had been ready when it was measured, in seconds.
        cpu_limit_mhz: Highest clock that the CPU is allowed, in MHz.
        gpu_limit_w: Power that accelerators are allowed, in W.
    """

    swap_mb: Limit = 16.0
    memory_wait: Limit = 0.1
    cpu_throttles: Limit = 2.0
    gpu_slowed: Limit = 0.0
    foreign_processes: Limit = 0.0
    server_age_s: Limit = 120.0
    cpu_limit_mhz: Limit = 50.0
    gpu_limit_w: Limit = 1.0


class AccuracyTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[accuracy]``: a command that puts the same items to each arm and says of each whether it was right.

    Attributes:
        command: Program and arguments, run here in the lab's directory; ``{url}`` is the server's root URL, ``{model}``
            the model it lists first. Both stand in ``KNOWNGOOD_URL`` and ``KNOWNGOOD_MODEL``, too.
        results: JSON file that it writes, relative to the lab; empty means what it prints. Either holds
            ``{"item": "7", "right": true}`` a line, or a list of such objects.
        margin: Largest loss allowed, in points of accuracy.
        timeout: Longest run.
    """

    command: tuple[str, ...]
    results: str = ""
    margin: str = "1%"
    timeout: str = "1h"


class AnswersTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``[answers]``: prompts of the answers guard.

    Attributes:
        prompts: File with one prompt a line; empty means a built-in set.
        count: Number of prompts.
        tokens: Tokens asked for per prompt.
    """

    prompts: str = ""
    count: Some = 20
    tokens: Some = 48


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
        answers_mode: ``same``, ``equivalent``, ``accuracy`` (the command says what is right) or ``off``.
        answers: Prompts of the answers guard.
        verdict: How much evidence is wanted.
        lease: When the host goes back to known-good by itself.
        memory: Largest growth of the server's memory, as a ratio minus one; None does not judge it.
        host_guard: How far host conditions may differ between the arms of a pair.
        accuracy: The command that says what is right; None for none.
        load: Who makes the load.
    """

    root: Path
    host: HostTable
    server: ServerTable
    workloads: tuple[Workload, ...]
    objective: ObjectiveTable
    worthwhile: float
    direction: Literal["higher", "lower"]
    guards: dict[str, float]
    answers_mode: AnswersMode
    answers: AnswersTable
    verdict: VerdictTable
    lease: LeaseTable = LeaseTable()
    memory: float | None = MEMORY_LIMIT
    host_guard: HostGuardTable = HostGuardTable()
    accuracy: AccuracyTable | None = None

    @property
    def compared_as(self) -> Literal["same", "equivalent"] | None:
        """How the candidate's answers are held against the baseline's; None if they are not."""
        match self.answers_mode:
            case "same" | "equivalent" as mode:
                return mode
            case _:
                return None

    @property
    def host_limits(self) -> dict[str, float]:
        """Host condition to the largest difference between the arms of a pair."""
        return {**msgspec.structs.asdict(self.host_guard), "foreign_cores": self.verdict.foreign_cores}

    @property
    def accuracy_margin(self) -> float:
        """Largest loss of accuracy, from 0 to 1; 0 without a command."""
        return abs(ratio(self.accuracy.margin, where="[accuracy] margin")) if self.accuracy else 0.0

    load: LoadTable = LoadTable()

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
    doc = read_toml(path, endless=ENDLESS)
    check_keys(doc, TABLES, where=f"{path}")
    if "server" not in doc:
        raise UsageError(f"{path} has no [server]", hint='add [server] with engine = "…" and command = ["…"]')
    objective = convert(doc.get("objective", {}), ObjectiveTable, where=f"{path} [objective]")
    guards, memory, answers_mode = read_guards(doc.get("guards", {}), where=f"{path} [guards]")
    accuracy = convert(doc["accuracy"], AccuracyTable, where=f"{path} [accuracy]") if "accuracy" in doc else None
    config = LabConfig(
        root=root.resolve(),
        host=convert(doc.get("host", {}), HostTable, where=f"{path} [host]"),
        server=convert(doc["server"], ServerTable, where=f"{path} [server]"),
        workloads=read_workloads(doc.get("workload", DEFAULT_WORKLOAD), root=root, where=f"{path} [[workload]]"),
        objective=objective,
        worthwhile=ratio(objective.worthwhile, where=f"{path} [objective] worthwhile", least=0.0),
        direction=objective.direction or better_direction(objective.metric),
        guards=guards,
        answers_mode=answers_mode,
        answers=convert(doc.get("answers", {}), AnswersTable, where=f"{path} [answers]"),
        verdict=convert(doc.get("verdict", {}), VerdictTable, where=f"{path} [verdict]"),
        lease=convert(doc.get("lease", {}), LeaseTable, where=f"{path} [lease]"),
        memory=memory,
        host_guard=convert(doc.get("host_guard", {}), HostGuardTable, where=f"{path} [host_guard]"),
        accuracy=accuracy,
        load=read_load(doc.get("load", {}), root=root, where=f"{path} [load]"),
    )
    if not config.server.command:
        raise UsageError(f"{path} [server] command is empty", hint="give the server's argv as a list")
    require_accuracy(config, where=f"{path}")
    require_slo(config, where=f"{path}")
    require_launchable(config.server, where=f"{path} [server]")
    for folder in config.host.managed:
        word(folder, where=f"{path} [host] managed")
    seconds(config.lease.ttl, where=f"{path} [lease] ttl", least=0.1)
    seconds(config.server.ready_timeout, where=f"{path} [server] ready_timeout", least=0.1)
    seconds(config.server.stop_grace, where=f"{path} [server] stop_grace")
    return config


def require_launchable(server: ServerTable, *, where: str) -> None:
    """Check that a process can be given these words, variables and address.

    Raises:
        UsageError: It cannot.
    """
    for name, value in server.env.items():
        variable(name, where=f"{where} env")
        if "\0" in value:
            raise UsageError(f"{where} env {name} holds a NUL", hint="no variable can")
    if any("\0" in part for part in server.command):
        raise UsageError(f"{where} command holds a NUL", hint="no argument can")
    word(server.cwd, where=f"{where} cwd")
    address = word(server.address, where=f"{where} address")
    try:
        if re.fullmatch(r"[0-9.]+", address) or ":" in address:
            ipaddress.ip_address(address)
    except ValueError as error:
        raise UsageError(f"{where} address is {address!r}", hint="such as 127.0.0.1, 0.0.0.0 or a name") from error
    if not address or " " in address:
        raise UsageError(f"{where} address is {address!r}", hint="such as 127.0.0.1, 0.0.0.0 or a name")


def require_accuracy(config: LabConfig, *, where: str) -> None:
    """Check that there is an accuracy command if it is to judge, and that it can be run.

    Raises:
        UsageError: It is missing or wrong.
    """
    table = config.accuracy
    if table is None:
        if config.answers_mode == "accuracy":
            hint = "add [accuracy] with command = [...], which says of each item whether it was right"
            raise UsageError(f'{where} [guards] answers = "accuracy" needs a command', hint=hint)
        return
    if not table.command:
        raise UsageError(f"{where} [accuracy] command is empty", hint="give program and arguments as a list")
    seconds(table.timeout, where=f"{where} [accuracy] timeout")
    if not config.accuracy_margin:
        raise UsageError(f"{where} [accuracy] margin is 0", hint='no number of items shows that: such as "1%"')


def require_slo(config: LabConfig, *, where: str) -> None:
    """Check that goodput means something where it decides or guards. A program of the user's own says what it means.

    Raises:
        UsageError: The workload has no limits that a request must keep.
    """
    workload = config.workloads[0]
    wanted = [f"[objective] metric = {GOODPUT!r}"] if config.objective.metric == GOODPUT else []
    wanted += [f"[guards] {GOODPUT}"] if GOODPUT in config.guards else []
    if not wanted or config.server.engine == "command" or (workload.slo is not None and workload.slo != Slo()):
        return
    raise UsageError(
        f"{where} {wanted[0]}: the workload {workload.name!r} says of no request whether it is good",
        hint="give it limits, such as slo = { ttft_ms = 500, tpot_ms = 50 }",
    )


def better_direction(metric: str) -> Literal["higher", "lower"]:
    """Direction that a metric's name implies: times, errors and memory are better low."""
    low = metric.endswith(("_ms", "_s_per_request", "_mb")) or metric in {"error_rate", "server_cpu_s"}
    return "lower" if low else "higher"


def read_load(table: object, *, root: Path, where: str) -> LoadTable:
    """Check ``[load]``; a program named by a relative path lies in the lab."""
    load = convert(table, LoadTable, where=where)
    seconds(load.timeout, where=f"{where} timeout")
    if load.program and "/" in load.program[0]:
        program = str((root / load.program[0]).absolute())
        load = msgspec.structs.replace(load, program=(program, *load.program[1:]))
    return load


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
        if not load.requests and not load.duration_s:
            raise UsageError(f"{at} measures nothing", hint="set requests or duration_s above 0")
        for key, length in (("isl", load.isl), ("osl", load.osl)):
            if length.high and length.high < length.low:
                raise UsageError(f"{at} {key}: high = {length.high} is below low = {length.low}", hint="swap them")
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


def read_guards(table: Mapping[str, Any], *, where: str) -> tuple[dict[str, float], float | None, AnswersMode]:
    """Check ``[guards]``: metric to largest loss, largest growth of memory, and the answers mode."""
    modes = get_args(AnswersMode)
    mode = table.get("answers", "equivalent")
    if mode not in modes:
        raise UsageError(f"{where} answers is {mode!r}", hint=f"one of {', '.join(modes)}")
    limits: dict[str, float] = {"error_rate": 0.0}
    memory: float | None = MEMORY_LIMIT
    for metric, value in table.items():
        if metric == "answers":
            continue
        if metric == "goodput":
            raise UsageError(f"{where} has no metric 'goodput'", hint=f"did you mean {GOODPUT!r}?")
        if (metric, value) == ("memory", "off"):
            memory = None
            continue
        if isinstance(value, int | float) and value < 0:
            raise UsageError(f"{where} {metric} is {value}", hint="a limit, 0 or more")
        limit = float(value) if isinstance(value, int | float) else abs(ratio(value, where=f"{where} {metric}"))
        if metric == "memory":
            memory = limit
        else:
            limits[metric] = limit
    return limits, memory, mode
