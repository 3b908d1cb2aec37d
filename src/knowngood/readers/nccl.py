"""What NCCL and nccl-tests print.

Sources: NCCL src/init.cc, src/transport.cc, src/enqueue.cc, src/graph/search.cc (2.21 to 2.30); nccl-tests
src/common.cu.
"""

import re
from collections import Counter
from collections.abc import Iterable

from knowngood.model.profile import Enqueued, NcclLog, NcclTest, TimedSize

VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")
RANKS = re.compile(r"\bnranks (\d+)")
VIA = re.compile(r"Channel \d+(?:/\d+)? : \d+\[\w+\] -> \d+\[\w+\].* via (\w+(?:/\w+)?)")
SET = re.compile(r"(NCCL_\w+) set by environment to (\S+)")
GRAPH = re.compile(r"Pattern \d+,.* bw (\d+(?:\.\d+)?)/(\d+(?:\.\d+)?)")
RAN = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
WARNING = re.compile(r"NCCL WARN (.+)")
# Before 2.24 the two were numbers. Source: NCCL src/include/nccl_common.h.
ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
PROTOCOLS = ("LL", "LL128", "SIMPLE")
MOST_WARNINGS = 5


def read_log(source: str, lines: Iterable[str]) -> NcclLog:
    """Read a log with lines of level INFO, ours or a whole server's.

    Args:
        source: Its name.
        lines: Its lines.
    """
    version, ranks, ready = "", 0, False
    transports: Counter[str] = Counter()
    ran: Counter[tuple[str, int, str, str]] = Counter()
    env: dict[str, str] = {}
    graph: list[float] = []
    warnings: list[str] = []
    for line in lines:
        if "NCCL" not in line:
            continue
        if found := VIA.search(line):
            transports[found[1]] += 1
        elif found := RAN.search(line):
            ran[found[1], int(found[2]), named(found[3], ALGORITHMS), named(found[4], PROTOCOLS)] += 1
        elif found := SET.search(line):
            env[found[1]] = found[2].rstrip(".")
        elif found := GRAPH.search(line):
            graph += [float(found[1]), float(found[2])]
        elif found := WARNING.search(line):
            warnings.append(found[1].strip())
        elif found := VERSION.search(line):
            version = version or found[1]
        if found := RANKS.search(line):
            ranks = max(ranks, int(found[1]))
        ready = ready or "Init COMPLETE" in line
    return NcclLog(
        source=source,
        version=version,
        ranks=ranks,
        transports=dict(transports.most_common()),
        env=env,
        enqueued=tuple(
            Enqueued(collective=what, size=size, algorithm=algorithm, protocol=protocol, count=count)
            for (what, size, algorithm, protocol), count in sorted(ran.items())
        ),
        graph_gb_s=min(graph, default=None),
        ready=ready,
        warnings=tuple(dict.fromkeys(warnings))[:MOST_WARNINGS],
    )


def named(word: str, names: tuple[str, ...]) -> str:
    """A name, also where the log has its number."""
    return names[int(word)] if word.isdigit() and int(word) < len(names) else word.upper()


def read_tests(source: str, lines: Iterable[str]) -> NcclTest | None:
    """Read what nccl-tests prints; None if there is no row.

    The header says which column is which: options such as ``-I`` add columns.
    """
    heads: list[str] = []
    rows: list[TimedSize] = []
    ranks, graphs = 0, False
    for line in lines:
        text = line.strip()
        if text.startswith("#"):
            words = text.lstrip("# ").split()
            if {"size", "time", "busbw"} <= set(words):
                heads = words
            elif words[:1] == ["Rank"]:
                ranks += 1
            graph = re.search(r"graph:\s*(\d+)", text)
            graphs = graphs or bool(graph and int(graph[1]))
        elif heads and text[:1].isdigit():
            rows += tested(heads, text.split())
    return NcclTest(source=source, ranks=ranks, graphs=graphs, rows=tuple(rows)) if rows else None


def tested(heads: list[str], cells: list[str]) -> list[TimedSize]:
    """One row; none if it is damaged."""
    try:
        wrong = cells[heads.index("#wrong")] if "#wrong" in heads else "N/A"
        return [
            TimedSize(
                size=int(cells[heads.index("size")]),
                us=float(cells[heads.index("time")]),
                bus_gb_s=float(cells[heads.index("busbw")]),
                wrong=None if wrong == "N/A" else int(float(wrong)),
            )
        ]
    except (ValueError, IndexError):
        return []
