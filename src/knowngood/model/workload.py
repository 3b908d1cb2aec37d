"""What is asked of a server while it is measured. Both arms get the same prompts at the same times."""

from typing import Literal

import msgspec

from knowngood.model.amounts import Count, Milliseconds, Patience, Rate, Seconds, Slots, Spread, Tokens


class Lengths(msgspec.Struct, frozen=True, kw_only=True):
    """Distribution of a length in tokens.

    Attributes:
        mean: Mean, in tokens.
        sd: Standard deviation of a normal distribution, in tokens; 0 means always the mean.
        low: Smallest length drawn.
        high: Largest length drawn; 0 means no limit.
    """

    mean: Tokens
    sd: Spread = 0.0
    low: Count = 1
    high: Count = 0


class Slo(msgspec.Struct, frozen=True, kw_only=True):
    """Limits a request must keep to count for goodput; a limit that is not set does not count.

    Attributes:
        ttft_ms: Longest time to first token, in milliseconds.
        tpot_ms: Longest mean time per further token, in milliseconds.
        e2e_ms: Longest time to the last token, in milliseconds.
    """

    ttft_ms: Milliseconds | None = None
    tpot_ms: Milliseconds | None = None
    e2e_ms: Milliseconds | None = None


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """One load pattern.

    Exactly one of ``concurrency`` (closed loop) and ``rate`` (open loop) is set.

    Attributes:
        name: Unique in a lab.
        endpoint: ``completions`` or ``chat``.
        prompts: Path of a prompt file (one per line; ``.jsonl`` with a ``prompt`` key), or empty to generate.
        isl: Input lengths of generated prompts.
        osl: Output lengths asked for; the server is told to ignore its end-of-text token.
        concurrency: Number of requests kept in flight.
        rate: Requests per second on a schedule fixed beforehand.
        arrivals: ``constant`` or ``poisson`` gaps, for open loop.
        duration_s: Length of the measured window, in seconds, if ``requests`` is 0.
        requests: Number of measured requests; 0 means as many as fit into ``duration_s``.
        warmup: Requests sent before the measured window.
        timeout_s: A request that takes longer is an error.
        seed: Of prompts, lengths and arrival times.
        slo: Limits for goodput.
        model: Name sent with each request; empty means what the server lists first.
        extra: Further fields of each request body, such as ``temperature``.
    """

    name: str = "default"
    endpoint: Literal["completions", "chat"] = "completions"
    prompts: str = ""
    isl: Lengths = Lengths(mean=128)
    osl: Lengths = Lengths(mean=64)
    concurrency: Slots = 0
    rate: Rate = 0.0
    arrivals: Literal["constant", "poisson"] = "poisson"
    duration_s: Seconds = 10.0
    requests: Count = 0
    warmup: Count = 2
    timeout_s: Patience = 120.0
    seed: int = 0
    slo: Slo | None = None
    model: str = ""
    extra: dict[str, str | int | float | bool] = {}
