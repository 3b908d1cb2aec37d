"""Nsight Systems: the ``.sqlite`` that it exports, and the tables of ``nsys stats`` as CSV.

Source: the exported schema in NVIDIA's "Nsight Systems Exporter" documentation; columns differ between versions, so
they are asked for.
"""

import csv
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from knowngood.errors import UsageError
from knowngood.model.profile import KernelTotals, Lane, Part, Timeline
from knowngood.readers.kernels import categorise

STEP = re.compile(r"(?i)ProfilerStep\s*#\s*\d+|^(?:decode[ _])?(?:step|iteration)[ _#:-]*\d+$")
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPHS = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMORY = {"CUPTI_ACTIVITY_KIND_MEMCPY": "Memcpy", "CUPTI_ACTIVITY_KIND_MEMSET": "Memset"}
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
RANGES = "NVTX_EVENTS"
OPAQUE = "graphs were recorded as a whole: record again with --cuda-graph-trace=node to see what is in them"
UNITS = {"ns": 1e-3, "us": 1.0, "μs": 1.0, "ms": 1e3, "s": 1e6}


def read_sqlite(path: Path) -> Timeline:
    """Read an exported database.

    Raises:
        UsageError: It is none, or holds no kernel.
    """
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            made = collect(db, Timeline(source=path.name))
    except sqlite3.Error as error:
        hint = "export it: nsys export --type sqlite REPORT.nsys-rep"
        raise UsageError(f"{path} cannot be read as a database: {error}", hint=hint) from error
    if not made.lanes:
        raise UsageError(f"{path} holds no kernel", hint="record with --trace=cuda,nvtx")
    return made


def collect(db: sqlite3.Connection, made: Timeline) -> Timeline:
    """Collect kernels, copies, step marks and graph launches."""
    tables = {str(name) for (name,) in db.execute("select name from sqlite_master where type in ('table', 'view')")}
    strings: dict[Any, Any] = {}
    if "StringIds" in tables:
        strings.update(db.execute("select id, value from StringIds").fetchall())
    lanes: dict[int, Lane] = {}
    names: dict[str, int] = {}

    def add(device: int, start: float, end: float, name: str, launch: int) -> None:
        lane = lanes.setdefault(device, Lane(rank=device, name=f"device {device}"))
        if name not in names:
            names[name] = len(made.names)
            made.names.append(name)
            made.categories.append(categorise(name))
        lane.add(start / 1e3, (end - start) / 1e3, names[name], launch)

    if KERNELS in tables:
        wanted = ("start", "end", "deviceId", "correlationId", best(db, KERNELS, "demangledName", "shortName"))
        for start, end, device, launch, name in select(db, KERNELS, wanted):
            add(device or 0, start, end, str(strings.get(name, name)), launch or 0)
    if GRAPHS in tables:
        for start, end, device, launch in select(db, GRAPHS, ("start", "end", "deviceId", "correlationId")):
            made.notes += [] if OPAQUE in made.notes else [OPAQUE]
            add(device or 0, start, end, "CUDA graph as a whole", launch or 0)
    for table, name in MEMORY.items():
        if table in tables:
            for start, end, device, launch in select(db, table, ("start", "end", "deviceId", "correlationId")):
                add(device or 0, start, end, name, launch or 0)
    if RANGES in tables:
        text = "textId" if "textId" in columns(db, RANGES) else ""
        for start, end, said, number in select(db, RANGES, ("start", "end", "text", text)):
            if end is not None and STEP.search(str(said or strings.get(number, ""))):
                made.marks.append((start / 1e3, end / 1e3))
    if RUNTIME in tables:
        rows = select(db, RUNTIME, ("start", "nameId", "correlationId"), order="start")
        made.graphs = [launch for _, name, launch in rows if launch and "GraphLaunch" in str(strings.get(name, ""))]
    made.lanes = [lanes[device] for device in sorted(lanes)]
    return made


def columns(db: sqlite3.Connection, table: str) -> set[str]:
    """Names of a table's columns."""
    return {str(row[1]) for row in db.execute(f"pragma table_info({table})")}


def best(db: sqlite3.Connection, table: str, *names: str) -> str:
    """The first of some columns that is there; empty if none is."""
    known = columns(db, table)
    return next((name for name in names if name in known), "")


def select(db: sqlite3.Connection, table: str, names: Iterable[str], *, order: str = "") -> Iterator[tuple[Any, ...]]:
    """Rows of a table; a column that it lacks reads as NULL. All names are ours, never the file's."""
    known = columns(db, table)
    listed = ", ".join(f'"{name}"' if name in known else "NULL" for name in names)
    return iter(db.execute(f"select {listed} from {table}{f' order by {order}' if order else ''}"))  # noqa: S608


def read_csv(path: Path) -> Timeline | KernelTotals:
    """Read a table of ``nsys stats``: ``cuda_gpu_trace`` has times, ``cuda_gpu_kern_sum`` has sums.

    Raises:
        UsageError: It is none of them.
    """
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        rows = iter(csv.reader(file))
        for row in rows:
            heads = [cell.strip() for cell in row]
            if "Name" in heads and any(head.startswith("Duration") for head in heads):
                return trace_rows(path.name, heads, rows)
            if "Name" in heads and any(head.startswith("Total Time") for head in heads):
                return sum_rows(path.name, heads, rows)
    hint = "nsys stats --format csv -r cuda_gpu_trace REPORT, or -r cuda_gpu_kern_sum"
    raise UsageError(f"{path} is no table of nsys stats that we know", hint=hint)


def find(heads: list[str], begin: str) -> tuple[int, float]:
    """Column whose name begins so, and microseconds a unit of it; -1 if there is none."""
    for at, head in enumerate(heads):
        if head.startswith(begin):
            unit = re.search(r"\((\w+)\)", head)
            return at, UNITS.get(unit.group(1), 1e-3) if unit else 1e-3
    return -1, 1.0


def trace_rows(source: str, heads: list[str], rows: Iterable[list[str]]) -> Timeline:
    """Rows of ``cuda_gpu_trace``."""
    (start, start_us), (length, length_us) = find(heads, "Start"), find(heads, "Duration")
    device, name, launch = find(heads, "Device")[0], heads.index("Name"), find(heads, "CorrId")[0]
    made, lanes, names = Timeline(source=source), dict[str, Lane](), dict[str, int]()
    bad = 0
    for row in rows:
        try:
            begin, took = float(row[start]) * start_us, float(row[length]) * length_us
            where, said = row[device] if device >= 0 else "", row[name]
            called = int(row[launch]) if launch >= 0 and row[launch] else 0
        except (ValueError, IndexError):
            bad += 1
            continue
        lane = lanes.setdefault(where, Lane(rank=len(lanes), name=where or "device"))
        if said not in names:
            names[said] = len(made.names)
            made.names.append(said)
            made.categories.append(categorise(said))
        lane.add(begin, took, names[said], called)
    made.lanes = list(lanes.values())
    made.notes += [f"{source}: {bad} rows are damaged; they are not counted"] if bad else []
    return made


def sum_rows(source: str, heads: list[str], rows: Iterable[list[str]]) -> KernelTotals:
    """Rows of ``cuda_gpu_kern_sum``."""
    (total, total_us), count, name = find(heads, "Total Time"), find(heads, "Instances")[0], heads.index("Name")
    ms: dict[str, float] = {}
    counts: dict[str, float] = {}
    for row in rows:
        try:
            took, times, category = float(row[total]) * total_us / 1e3, float(row[count]), categorise(row[name])
        except (ValueError, IndexError):
            continue
        ms[category] = ms.get(category, 0.0) + took
        counts[category] = counts.get(category, 0.0) + times
    parts = [Part(category=category, ms=took, count=counts[category]) for category, took in ms.items()]
    return KernelTotals(source=source, parts=tuple(sorted(parts, key=lambda part: -part.ms)))
