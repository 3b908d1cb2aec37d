"""What was seen while a server ran: runs, launches, pairs. Raw samples are artifacts; these are their summaries."""

from typing import Literal

import msgspec

Arm = Literal["baseline", "candidate"]
ACCEPTANCE = "acceptance_length"
"""Metric of a run: mean tokens that one step of speculation yields, the one that is always right included."""


class CpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one instant, since boot or start; times in seconds.

    Attributes:
        at: Monotonic clock of the host.
        busy_s: CPU time that the machine has spent on anything, stolen time included.
        server_s: CPU time that the server's process group has used.
        rss_mb: Its resident memory, in MB.
        counts: Further counters of the machine by name: ``swap_mb``, ``steal_s``, ``cpu_throttles``, ``oom_kills``,
            ``cpu_wait_s``, ``memory_wait_s``, ``io_wait_s``; what it does not count is left out.
    """

    at: float
    busy_s: float
    server_s: float
    rss_mb: float = 0.0
    counts: dict[str, float] = {}


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What goes on around a server at one instant, as far as its machine tells.

    Attributes:
        levels: ``cpu_mhz``, ``cpu_limit_mhz``, ``cpu_celsius``, ``gpu_mhz``, ``gpu_limit_w``, ``gpu_celsius``, and the
            counter ``gpu_slow_s``: time in which heat kept an accelerator's clock down.
        slowed: Accelerators whose clock is kept down by heat or by their supply, in words.
        strangers: Processes of others on an accelerator, in words.
        gpu_mb: Memory of accelerators that the server holds, in MB; None if nobody tells.
        accelerators: How many there are.
        driver: Version of their driver; empty if unknown.
    """

    levels: dict[str, float] = {}
    slowed: tuple[str, ...] = ()
    strangers: tuple[str, ...] = ()
    gpu_mb: float | None = None
    accelerators: int = 0
    driver: str = ""


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One benchmark pass against a running server.

    Attributes:
        workload: Name of the workload.
        metrics: Name to value; the names carry their units (``ttft_p99_ms``, ``output_tok_s``, ``error_rate``).
        requests: Requests finished in the measured window, errors included.
        errors: Requests that failed.
        seconds: Length of the measured window.
        foreign_cores: CPU used by others during the window, in cores.
        server_cpu_s: CPU seconds that the server used in the window.
        samples: Digest of the raw samples' artifact; empty if there are none.
        error_kinds: What failed, to how often.
        notes: What the host said beside its figures: slowed accelerators, processes of others on them.
        rss_mb: Resident memory of the server as the window opened, in MB: loaded, and after the same number of requests
            whatever its speed; 0 if it was not read.
        gpu_mb: Most memory of accelerators that the server held around the window, in MB; None if nobody tells.
        client: Whose benchmark client measured it; empty for our own. Another's raw samples are what it wrote.
    """

    workload: str
    metrics: dict[str, float]
    requests: int = 0
    errors: int = 0
    seconds: float = 0.0
    foreign_cores: float = 0.0
    server_cpu_s: float = 0.0
    samples: str = ""
    error_kinds: dict[str, int] = {}
    notes: tuple[str, ...] = ()
    rss_mb: float = 0.0
    gpu_mb: float | None = None
    client: str = ""


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence on whether one member of a change set took effect.

    Attributes:
        member: The member in one line.
        holds: True: seen to be in force; False: seen not to be; None: nothing on this engine could tell.
        evidence: What was looked at and what it said.
    """

    member: str
    holds: bool | None
    evidence: str


class LaunchRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a server and what was measured in it.

    Attributes:
        arm: Which side of the comparison.
        index: Number of the launch in its trial, from 0.
        pair: Number of the pair it belongs to, from 0.
        attempt: How often this pair was repeated before.
        started_at: Unix time of the start.
        ready_s: Seconds from start to readiness.
        runs: Passes measured, in order; the first workload is the objective.
        value: Value of the objective's metric for this launch.
        proofs: Effect proofs, one a member (candidate only).
        log: Digest of the server's log.
        rss_mb: Resident memory of the server's process group, in MB: as its first measured window opened.
        packages: Digest over the Python packages that the server loads from; empty for none.
        candidate: Name of the candidate, where there are many; empty for the baseline, and in a trial.
        took_s: Seconds from its start until it was measured: readiness, warm-up, windows and what they waited for.
    """

    arm: Arm
    index: int
    pair: int = 0
    attempt: int = 0
    started_at: float
    ready_s: float
    runs: tuple[RunRecord, ...]
    value: float
    proofs: tuple[Proof, ...] = ()
    log: str = ""
    rss_mb: float = 0.0
    candidate: str = ""
    took_s: float = 0.0
    packages: str = ""

    @property
    def acceptance_length(self) -> float | None:
        """Tokens that one step of speculation yielded; None without, or if the engine does not tell."""
        return next((run.metrics[ACCEPTANCE] for run in self.runs if ACCEPTANCE in run.metrics), None)

    @property
    def gpu_mb(self) -> float | None:
        """Most memory of accelerators that the server held, in MB; None if nobody tells."""
        return max((run.gpu_mb for run in self.runs if run.gpu_mb is not None), default=None)


class AnswerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Greedy answers of candidate against baseline.

    Attributes:
        asked: Number of prompts.
        same: Answers equal to the last token.
        near_ties: Answers that part at a numerical near tie.
        wrong: Answers that part where the baseline was sure of another token.
        unjudged: Answers that part where the baseline could not be asked.
        own_asked: Answers in which the baseline was compared with itself.
        own_mismatches: Of these, how many differ.
        own_wrong: Of these, how many part where the baseline was sure of another token.
        detects: Smallest share of wrong answers that this check sees with 95 % probability.
        examples: Up to three differing answers, for people.
    """

    asked: int
    same: int
    near_ties: int = 0
    wrong: int = 0
    unjudged: int = 0
    own_asked: int = 0
    own_mismatches: int = 0
    own_wrong: int = 0
    detects: float
    examples: tuple[str, ...] = ()


class AccuracyCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The same items put to both arms by the lab's own command.

    Attributes:
        items: Number of items.
        base_right: Of these, how many the baseline got right.
        right: How many the candidate got right.
        lost: How many only the baseline got right.
        gained: How many only the candidate got right.
        base_output: Digest of the artifact with what the command printed for the baseline.
        output: The same for the candidate.
    """

    items: int
    base_right: int
    right: int
    lost: int
    gained: int
    base_output: str = ""
    output: str = ""
