"""What one all-reduce costs, and how many a step has: the alpha-beta model that NCCL itself chooses by.

Time is latency plus bytes by bandwidth. The model holds launch, skew and hops through host memory for free, so a
healthy machine is somewhat slower than it says, and one that is ten times slower has a cause worth finding.
"""

from typing import Literal

import msgspec

from knowngood.model.steptime import HardwareFacts, Link, ModelFacts

Algorithm = Literal["ring", "tree", "one-shot"]
Protocol = Literal["LL", "LL128", "Simple"]

# Source: NCCL src/graph/tuning.cc, ncclTunerConstantsDefaults (baseLatencies, hwLatencies), 2.27 to 2.30; microseconds.
BASE_US: dict[tuple[Algorithm, Protocol], float] = {
    ("tree", "LL"): 6.8,
    ("tree", "LL128"): 14.0,
    ("tree", "Simple"): 8.4,
    ("ring", "LL"): 6.6,
    ("ring", "LL128"): 14.0,
    ("ring", "Simple"): 8.4,
}
HOP_US: dict[Link, dict[tuple[Algorithm, Protocol], float]] = {
    "nvlink": {
        ("tree", "LL"): 0.6,
        ("tree", "LL128"): 1.25,
        ("tree", "Simple"): 4.0,
        ("ring", "LL"): 0.6,
        ("ring", "LL128"): 1.9,
        ("ring", "Simple"): 3.4,
    },
    "pcie": {
        ("tree", "LL"): 1.0,
        ("tree", "LL128"): 1.9,
        ("tree", "Simple"): 4.0,
        ("ring", "LL"): 1.0,
        ("ring", "LL128"): 2.5,
        ("ring", "Simple"): 5.7,
    },
}
# Share of the bus that a protocol can use. Source: the same file, ncclTopoTuneModel: LL sends a flag with each word.
RING_SHARE: dict[Protocol, float] = {"LL": 0.5, "LL128": 0.92, "Simple": 1.0}
TREE_SHARE: dict[Protocol, float] = {"LL": 0.92 / 3.8, "LL128": 0.92 * 7 / 9, "Simple": 0.92}
# A ring's bus bandwidth where nobody measured it: PCIe 4.0 x16 and NVLink 4, as NCCL's topology constants have them.
ASSUMED_GB_S: dict[Link, float] = {"pcie": 24.0, "nvlink": 370.0}
# Fitted by us to published one-shot times at 8 ranks behind PCIe switches, 1 to 256 KB (7.5, 9.2, 16.5, 25.9, 73.6 µs):
# every rank reads the whole message of every other. For NVLink the same start-up is taken, which is an assumption.
ONE_SHOT_US = 7.3
ONE_SHOT_PCIE_GB_S = 28.0
# Published all-reduces of 14 to 64 KB on eight PCIe GPUs whose transport is healthy take this long, in microseconds.
HEALTHY_PCIE_US = (20.0, 57.0)


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """One way to do an all-reduce.

    Attributes:
        algorithm: Ring, tree, or one-shot (a kernel of the engine's own, not NCCL's).
        protocol: NCCL's protocol; ``LL`` for one-shot, whose flags travel with the data, too.
        latency_us: Time of an empty message, in microseconds.
        transfer_us: Time by bandwidth, in microseconds.
        by_default: NCCL would consider it on its own. LL128 over PCIe can corrupt data and is never taken there.
    """

    algorithm: Algorithm
    protocol: Protocol
    latency_us: float
    transfer_us: float
    by_default: bool = True

    @property
    def us(self) -> float:
        """Whole time, in microseconds."""
        return self.latency_us + self.transfer_us


def per_step(model: ModelFacts) -> int | None:
    """All-reduces of one forward pass under tensor parallelism; None without the number of layers.

    The embedding's all-reduce and the gather of the logits come on top; they are two among a hundred and left out.
    """
    return None if model.layers is None else model.layers * model.allreduces_per_layer


def message_bytes(model: ModelFacts, tokens: float) -> float | None:
    """Size of one all-reduce, in bytes: tokens by hidden by bytes an element."""
    return None if model.hidden is None else tokens * model.hidden * model.activation_bytes


def tokens_in(model: ModelFacts, size: float) -> float | None:
    """Tokens that a message of ``size`` bytes holds."""
    one = message_bytes(model, 1)
    return None if not one else size / one


def steps(algorithm: Algorithm, ranks: int) -> int:
    """Hops of one all-reduce inside a machine: 2 (n - 1) for the ring, and for the tree, which is a chain there."""
    return 1 if algorithm == "one-shot" else 2 * (ranks - 1)


def allreduce(
    size: float, *, ranks: int, link: Link, algorithm: Algorithm, protocol: Protocol = "LL", bus_gb_s: float = 0.0
) -> Cost:
    """Time of one all-reduce.

    Args:
        size: Bytes.
        ranks: GPUs, at least 2.
        link: What connects them.
        algorithm: Ring, tree or one-shot.
        protocol: NCCL's protocol; one-shot has none.
        bus_gb_s: Bus bandwidth in GB/s; 0 takes a usual one.

    Source: NCCL src/graph/tuning.cc, ncclTopoTuneModel and ncclTopoGetAlgoTime. NCCL's correction of a tree's bandwidth
    at middle sizes is left out: it changes a few microseconds at 40 KB.
    """
    bus = bus_gb_s or ASSUMED_GB_S[link]
    if algorithm == "one-shot":
        speed = bus_gb_s or (ONE_SHOT_PCIE_GB_S if link == "pcie" else ASSUMED_GB_S[link])
        transfer = (ranks - 1) * size / (speed * 1e3)
        return Cost(algorithm=algorithm, protocol="LL", latency_us=ONE_SHOT_US, transfer_us=transfer, by_default=False)
    share = RING_SHARE[protocol] * ranks / (2 * (ranks - 1)) if algorithm == "ring" else TREE_SHARE[protocol] / 2
    return Cost(
        algorithm=algorithm,
        protocol=protocol,
        latency_us=BASE_US[algorithm, protocol] + steps(algorithm, ranks) * HOP_US[link][algorithm, protocol],
        transfer_us=size / (bus * share * 1e3),
        by_default=protocol != "LL128" or link == "nvlink",
    )


def options(size: float, hardware: HardwareFacts) -> tuple[Cost, ...]:
    """Every way to do an all-reduce on this hardware, the fastest first; empty if ranks or link are unknown."""
    ranks, link = hardware.gpus, hardware.link
    if ranks is None or ranks < 2 or link is None:  # noqa: PLR2004  (one GPU reduces nothing)
        return ()
    bus = hardware.link_gb_s or 0.0
    found = [
        allreduce(size, ranks=ranks, link=link, algorithm=algorithm, protocol=protocol, bus_gb_s=bus)
        for algorithm, protocol in BASE_US
    ]
    found.append(allreduce(size, ranks=ranks, link=link, algorithm="one-shot", bus_gb_s=bus))
    return tuple(sorted(found, key=lambda cost: cost.us))


def choice(size: float, hardware: HardwareFacts) -> Cost | None:
    """What NCCL would take by itself: the fastest of its own; None if ranks or link are unknown."""
    return next((cost for cost in options(size, hardware) if cost.by_default), None)
