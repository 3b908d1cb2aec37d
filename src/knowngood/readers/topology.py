"""``nvidia-smi topo -m``: how the GPUs of a machine are joined."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from knowngood.model.profile import Topology

ANSI = re.compile(r"\x1b\[[0-9;]*m")
GPU = re.compile(r"GPU\d+$")
DEVICE = re.compile(r"(?:GPU|NIC)\d+$|mlx\w+$")
NEAREST = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
"""From the nearest to the farthest. Source: the legend that the command itself prints."""


def read_topology(source: str, lines: Iterable[str]) -> Topology | None:
    """Read the matrix; None if there is none."""
    heads: list[str] = []
    rows: dict[str, list[str]] = {}
    for line in lines:
        words = ANSI.sub("", line).split()
        if not heads and len(words) > 1 and GPU.match(words[0]) and DEVICE.match(words[1]):
            heads = [word for word in words if DEVICE.match(word)]
        elif not heads and words[:1] and GPU.match(words[0]) and words[1:2] == ["CPU"]:
            heads = words[:1]
        elif heads and words and GPU.match(words[0]) and words[0] not in rows:
            rows[words[0]] = words[1:]
    gpus = [name for name in heads if GPU.match(name)]
    if not gpus or not all(name in rows for name in gpus):
        return None
    links: Counter[str] = Counter()
    for name in gpus:
        for other, kind in zip(heads, rows[name], strict=False):
            if GPU.match(other) and gpus.index(other) > gpus.index(name):
                links[kind] += 1
    return Topology(
        source=source,
        gpus=len(gpus),
        links=dict(links.most_common()),
        worst=max(links, key=distance, default=""),
        sockets=len({node for name in gpus if (node := numa(rows[name], len(heads)))}),
    )


def distance(kind: str) -> int:
    """How far two GPUs are apart; what is unknown is farthest."""
    return next((at for at, name in enumerate(NEAREST) if kind.startswith(name)), len(NEAREST))


def numa(cells: Sequence[str], devices: int) -> str:
    """NUMA node of a row: the column after the CPUs; empty if it is not said."""
    return cells[devices + 1] if len(cells) > devices + 1 and cells[devices + 1] != "N/A" else ""
