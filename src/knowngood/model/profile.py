"""What profiles, logs and tools say of a step, read into one form whatever wrote it."""

from array import array
from dataclasses import dataclass, field

import msgspec


@dataclass(slots=True)
class Lane:
    """Kernels of one device, or operations of one thread, in the order in which they were read.

    Kept as plain arrays: a profile holds millions of them.

    Attributes:
        rank: Rank or device; lanes of one rank belong together.
        name: For people.
        nested: Events lie inside each other, as operations on a CPU do; kernels of a device overlap instead.
        starts: In microseconds.
        durations: In microseconds.
        names: Index into the timeline's names.
        launches: Correlation id of the launch; 0 if there is none.
    """

    rank: int
    name: str
    nested: bool = False
    starts: "array[float]" = field(default_factory=lambda: array("d"))
    durations: "array[float]" = field(default_factory=lambda: array("d"))
    names: "array[int]" = field(default_factory=lambda: array("L"))
    launches: "array[int]" = field(default_factory=lambda: array("Q"))

    def add(self, start: float, duration: float, name: int, launch: int = 0) -> None:
        """Add one event."""
        self.starts.append(start)
        self.durations.append(duration)
        self.names.append(name)
        self.launches.append(launch)


@dataclass(slots=True)
class Timeline:
    """Everything of a profile that says where time went.

    Attributes:
        source: What it was read from.
        names: Names of kernels and operations, each once.
        categories: Category of each name.
        lanes: One a device or thread.
        marks: Start and end of each annotated step, in microseconds.
        graphs: Correlation ids of graph launches, in order of time.
        notes: What a reader must know, such as where a file was cut off.
    """

    source: str
    names: list[str] = field(default_factory=list[str])
    categories: list[str] = field(default_factory=list[str])
    lanes: list[Lane] = field(default_factory=list[Lane])
    marks: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    graphs: list[int] = field(default_factory=list[int])
    notes: list[str] = field(default_factory=list[str])


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One category of a step.

    Attributes:
        category: Such as ``comm.allreduce`` or ``moe.gemm``.
        ms: Milliseconds a step; concurrent kernels share a moment with the one that began first.
        count: Kernels a step.
    """

    category: str
    ms: float
    count: float


class Collective(msgspec.Struct, frozen=True, kw_only=True):
    """Collectives of one kind, matched across ranks.

    Attributes:
        category: Its category.
        count: Number a step and rank.
        mean_us: Mean duration, in microseconds.
        p50_us: Median.
        p95_us: 95th percentile.
        transport_us: Mean over instances of the shortest duration among the ranks: what the transport needs at most.
        wait_us: Mean of the rest: waiting for the rank that came last. None without a second rank.
    """

    category: str
    count: float
    mean_us: float
    p50_us: float
    p95_us: float
    transport_us: float | None = None
    wait_us: float | None = None


class StepProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A step, as a profile shows it.

    Attributes:
        source: What it was read from.
        ranks: Ranks or devices seen.
        steps: Steps that were averaged.
        bounded_by: How steps were told apart.
        step_ms: Length of a step, in milliseconds.
        parts: What ran, the largest first; with ``idle_ms`` they add up to ``step_ms``.
        idle_ms: Time without any kernel, in milliseconds.
        overlap_ms: Time in which a further kernel ran beside the one that is counted, in milliseconds.
        collectives: Collectives, by kind.
        notes: What a reader must know.
    """

    source: str
    ranks: int
    steps: int
    bounded_by: str
    step_ms: float
    parts: tuple[Part, ...]
    idle_ms: float
    overlap_ms: float = 0.0
    collectives: tuple[Collective, ...] = ()
    notes: tuple[str, ...] = ()


class KernelTotals(msgspec.Struct, frozen=True, kw_only=True):
    """Sums over kernels, without times: shares, but no idle time and no steps.

    Attributes:
        source: What it was read from.
        parts: Milliseconds and counts of the whole profile.
    """

    source: str
    parts: tuple[Part, ...]


class Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """What NCCL says it did with messages of one size: the only reliable statement of algorithm and protocol.

    Attributes:
        collective: Such as ``AllReduce``.
        size: In bytes.
        algorithm: Such as ``RING``.
        protocol: ``LL``, ``LL128`` or ``SIMPLE``.
        count: How often it was said.
    """

    collective: str
    size: int
    algorithm: str
    protocol: str
    count: int


class NcclLog(msgspec.Struct, frozen=True, kw_only=True):
    """What a log of NCCL says.

    Attributes:
        source: What it was read from.
        version: Of NCCL; empty if it is not said.
        ranks: Size of the largest communicator.
        transports: Such as ``P2P/IPC`` or ``SHM``, to the number of connections.
        env: Variables that arrived.
        enqueued: What ran, by size.
        graph_gb_s: Smallest bandwidth of a graph it found, in GB/s.
        ready: Its initialisation was complete.
        warnings: Lines of level WARN.
    """

    source: str
    version: str = ""
    ranks: int = 0
    transports: dict[str, int] = {}
    env: dict[str, str] = {}
    enqueued: tuple[Enqueued, ...] = ()
    graph_gb_s: float | None = None
    ready: bool = False
    warnings: tuple[str, ...] = ()


class TimedSize(msgspec.Struct, frozen=True, kw_only=True):
    """A row of nccl-tests: bytes, microseconds, bus bandwidth in GB/s, wrong elements (None: unchecked)."""

    size: int
    us: float
    bus_gb_s: float
    wrong: int | None = None


class NcclTest(msgspec.Struct, frozen=True, kw_only=True):
    """Output of nccl-tests, out of place.

    Attributes:
        source: What it was read from.
        ranks: Ranks that took part; 0 if the header is missing.
        graphs: It ran under CUDA graphs, as a server does.
        rows: One a size.
    """

    source: str
    ranks: int
    graphs: bool
    rows: tuple[TimedSize, ...]


class Topology(msgspec.Struct, frozen=True, kw_only=True):
    """What ``nvidia-smi topo -m`` says.

    Attributes:
        source: What it was read from.
        gpus: Number of GPUs.
        links: Kind of link to the number of pairs, such as ``PIX``, ``SYS``, ``NV18``.
        worst: The farthest of them.
        sockets: NUMA nodes that GPUs hang on; 0 if it is not said.
    """

    source: str
    gpus: int
    links: dict[str, int]
    worst: str
    sockets: int = 0

    @property
    def nvlink(self) -> bool:
        """Whether every pair is joined by NVLink."""
        return bool(self.links) and all(name.startswith("NV") for name in self.links)


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine's metrics page or log says of speculation and steps.

    Attributes:
        source: What it was read from.
        engine: Which engine's; empty if unknown.
        tokens_per_verify: Tokens a round yields, the bonus token included.
        acceptance: Per position, the probability that it is reached and accepted.
        drafts: Tokens drafted a round.
        tok_s: Tokens per second that it printed, the median.
        cuda_graph: Whether decode steps ran as CUDA graphs; None if it does not say.
    """

    source: str
    engine: str = ""
    tokens_per_verify: float | None = None
    acceptance: tuple[float, ...] = ()
    drafts: int | None = None
    tok_s: float | None = None
    cuda_graph: bool | None = None


Evidence = StepProfile | KernelTotals | NcclLog | NcclTest | Topology | EngineStats


class Knob(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of an engine or library, as the catalogue knows it.

    Attributes:
        id: Unique, such as ``nccl.p2p_level``.
        engine: Whose it is.
        kind: ``env``, ``cli``, ``host``, ``driver`` or ``boot``.
        name: The variable or flag.
        effect: What it does.
        default: What holds without it.
        constraint: What must hold with it.
        danger: What can go wrong, beginning with low, medium or high.
        verify: How it proves its effect.
        requires_hardware: What the machine must have.
        since: First version that has it.
        until: Last version that has it.
        source: Where that is written.
        status: ``verified-source``, ``third-party`` or ``derived``.
    """

    id: str
    engine: str
    kind: str
    name: str
    effect: str
    default: str = ""
    constraint: tuple[str, ...] = ()
    danger: str = ""
    verify: str = ""
    requires_hardware: str = ""
    since: str = ""
    until: str = ""
    source: str = ""
    status: str = ""


class KnobRule(msgspec.Struct, frozen=True, kw_only=True):
    """What several knobs mean to each other; the text names them by id."""

    id: str
    rule: str
    kind: str


class Catalogue(msgspec.Struct, frozen=True, kw_only=True):
    """All knobs, and the rules between them."""

    knobs: tuple[Knob, ...]
    rules: tuple[KnobRule, ...]
