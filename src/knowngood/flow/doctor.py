"""What a host is, what is missing on it, how quiet it is, and what can be detected on it at which price."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from knowngood.errors import KnowngoodError
from knowngood.flow.bench import Bench
from knowngood.flow.cost import price_of
from knowngood.flow.facts import host_facts
from knowngood.flow.preflight import left_over
from knowngood.flow.server import listens, which
from knowngood.model.evidence import Surroundings
from knowngood.reason.power import Price

PROFILES = ("quick", "standard", "thorough")
BUSIEST = 3
CPU_FIELDS = slice(1, 9)
IDLE_FIELDS = (3, 4)
TICKS_PER_S = 100.0


class Examination(msgspec.Struct, frozen=True, kw_only=True):
    """What was found.

    Attributes:
        facts: Fact name to value.
        problems: What is missing or in the way, with what to do.
        foreign_cores: CPU that others used while we looked, in cores.
        busiest: The processes that used most of it.
        mde: Profile to smallest effect kept with 80 % probability; empty before the first baseline.
        worst_min: Profile to longest duration of a trial, in minutes.
        watched: Host condition that is watched here, to what it reads now.
        unwatched: Host conditions that this machine does not tell.
    """

    facts: dict[str, str]
    problems: tuple[str, ...]
    foreign_cores: float
    busiest: tuple[str, ...]
    mde: dict[str, float]
    worst_min: dict[str, float]
    watched: dict[str, str] = {}
    unwatched: tuple[str, ...] = ()


def examine(bench: Bench, *, watch_s: float) -> Examination:
    """Look at a host for a while without starting anything.

    Args:
        bench: The lab's tools.
        watch_s: How long to watch its CPU, in seconds.
    """
    foreign, busiest = watch(watch_s) if bench.host.is_here else (watch_from_afar(bench, watch_s), ())
    state = bench.memory.state
    costs: dict[str, Price] = {}
    if state.noise:
        costs = {name: price_of(bench, name) for name in PROFILES}
    conditions = watchable(bench.host.counts(), bench.host.surroundings())
    return Examination(
        facts={**host_facts(bench.host), **(state.baseline.facts if state.baseline else {})},
        problems=problems(bench),
        foreign_cores=foreign,
        busiest=busiest,
        mde={name: cost.mde for name, cost in costs.items()},
        worst_min={name: cost.most_minutes for name, cost in costs.items()},
        watched={name: now for name, now in conditions.items() if now is not None},
        unwatched=tuple(name for name, now in conditions.items() if now is None),
    )


def watchable(counts: Mapping[str, float], around: Surroundings) -> dict[str, str | None]:
    """Host condition to what it reads now, in words; None for one that this machine does not tell."""
    levels, has_devices = around.levels, around.accelerators > 0
    return {
        "swapping": said("{:.0f} MB since boot", counts.get("swap_mb")),
        "waiting for memory": said("{:.0f} s since boot", counts.get("memory_wait_s")),
        "stolen CPU time": said("{:.0f} s since boot", counts.get("steal_s")),
        "thermal throttling of the CPU": said("{:.0f} times since boot", counts.get("cpu_throttles")),
        "CPU clock limit": said("{:.0f} MHz", levels.get("cpu_limit_mhz")),
        "CPU temperature": said("{:.0f} °C", levels.get("cpu_celsius")),
        "accelerators": f"{around.accelerators}, driver {around.driver or 'unknown'}" if has_devices else None,
        "slowed accelerators": ("; ".join(around.slowed) or "none") if has_devices else None,
        "processes on accelerators": ("; ".join(around.strangers) or "none") if has_devices else None,
        "accelerator power limit": said("{:.0f} W", levels.get("gpu_limit_w")),
        "accelerator temperature": said("{:.0f} °C", levels.get("gpu_celsius")),
    }


def said(form: str, value: float | None) -> str | None:
    """A value in words; None if there is none."""
    return None if value is None else form.format(value)


def problems(bench: Bench) -> tuple[str, ...]:
    """What is missing or in the way."""
    found: list[str] = []
    spec = bench.config.spec
    try:
        bench.engine.resolve(spec, which=lambda name: which(bench, name))
    except KnowngoodError as error:
        found.append(f"{error.message} ({error.hint})")
    try:
        bench.load.require(bench.config.workloads)
    except KnowngoodError as error:
        found.append(f"{error.message} ({error.hint})")
    if spec.port and listens(bench.host, spec.port):
        found.append(f"somebody listens on {spec.address}:{spec.port} (stop it, or set another [server] port)")
    found += [f"{line} (run `knowngood recover`)" for line in left_over(bench)]
    if bench.memory.state.baseline is None:
        found.append("there is no baseline yet (run `knowngood baseline`)")
    return tuple(found)


def watch(seconds: float, *, proc: Path = Path("/proc")) -> tuple[float, tuple[str, ...]]:
    """Watch a machine's CPU.

    Args:
        seconds: How long.
        proc: The process file system.

    Returns:
        Cores in use, our own share left out, and the busiest processes in words.
    """
    busy, each, own = busy_ticks(proc), process_ticks(proc), time.process_time()
    begun = time.monotonic()
    time.sleep(seconds)
    length = time.monotonic() - begun
    cores = (busy_ticks(proc) - busy) / TICKS_PER_S / length - (time.process_time() - own) / length
    used = {pid: ticks - each.get(pid, ticks) for pid, ticks in process_ticks(proc).items()}
    top = sorted(used, key=lambda pid: -used[pid])[:BUSIEST]
    shares = {pid: used[pid] / TICKS_PER_S / length for pid in top if used[pid]}
    names = [f"process {pid} ({name_of(proc, pid)}): {share:.2f} cores" for pid, share in shares.items()]
    return max(0.0, cores), tuple(names)


def watch_from_afar(bench: Bench, seconds: float) -> float:
    """Watch the CPU of a machine that is not this one; return the cores in use."""

    def ticks() -> float:
        return parse_ticks((bench.host.look("/proc/stat") or b"cpu 0 0 0 0 0 0 0 0").decode())

    busy, begun = ticks(), time.monotonic()
    time.sleep(seconds)
    return max(0.0, (ticks() - busy) / TICKS_PER_S / (time.monotonic() - begun))


def busy_ticks(proc: Path) -> float:
    """Ticks that the machine has worked, time stolen by its host included."""
    return parse_ticks((proc / "stat").read_text())


def parse_ticks(text: str) -> float:
    """Read the ticks that all processors have worked out of /proc/stat."""
    fields: Sequence[str] = text.splitlines()[0].split()[CPU_FIELDS]
    return sum(float(value) for at, value in enumerate(fields) if at not in IDLE_FIELDS)


def process_ticks(proc: Path) -> dict[int, float]:
    """Process id to ticks used, for every process that can be read."""
    found: dict[int, float] = {}
    for folder in proc.iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            found[int(folder.name)] = float(fields[11]) + float(fields[12])
    return found


def name_of(proc: Path, pid: int) -> str:
    """Short name of a process; empty if it has ended."""
    try:
        return (proc / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""
