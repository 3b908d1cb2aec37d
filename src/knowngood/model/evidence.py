"""What was seen while a server ran: runs, launches, pairs. Raw samples are artifacts; these are their summaries."""

from typing import Literal

import msgspec

Arm = Literal["baseline", "candidate"]


class CpuReading(msgspec.Struct, frozen=True, kw_only=True):
    """Counters of one instant, all in seconds since boot or start.

    Attributes:
        at: Monotonic clock of the host.
        busy_s: CPU time that the machine has spent on anything, stolen time included.
        server_s: CPU time that the server's process group has used.
    """

    at: float
    busy_s: float
    server_s: float


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
        rss_mb: Largest resident memory of the server's process group seen, in MB.
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
