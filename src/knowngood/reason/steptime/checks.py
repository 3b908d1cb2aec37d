"""Numbers that cannot all be true, and numbers that are no wonder of physics: said before anybody tunes anything."""

from collections.abc import Iterator
from typing import Literal

import msgspec

from knowngood.model.steptime import Facts
from knowngood.reason.speculation import expected_tokens, is_decreasing
from knowngood.reason.steptime.arithmetic import Arithmetic, by_rate, marginal_ns_per_byte
from knowngood.reason.steptime.collectives import HEALTHY_PCIE_US, tokens_in

TOLERANCE = 0.15
"""Two ways to the same number may differ by this share: rounding, and a profile that is no benchmark."""
SLOW_GB_S = 2.0
"""No PCIe link in use is slower than this for a payload; less means staging, waiting, or another protocol."""
CHANGE = 1.5


class Contradiction(msgspec.Struct, frozen=True, kw_only=True):
    """Something in the input that does not fit.

    Attributes:
        kind: ``impossible`` if the numbers exclude each other, ``suspicious`` if something else must be going on.
        says: What does not fit, with the numbers.
        means: What follows.
    """

    kind: Literal["impossible", "suspicious"]
    says: str
    means: str


def contradictions(facts: Facts, found: Arithmetic) -> tuple[Contradiction, ...]:
    """Everything that does not fit, impossible things first."""
    seen = [
        *claimed_floor(facts, found),
        *idle_claims(facts, found),
        *step_parts(facts, found),
        *token_counts(facts, found),
        *message_sizes(facts, found),
        *floors(found),
        *jumps(found),
    ]
    return tuple(sorted(seen, key=lambda one: one.kind))


def impossible(says: str, means: str) -> Contradiction:
    """Numbers that exclude each other."""
    return Contradiction(kind="impossible", says=says, means=means)


def suspicious(says: str, means: str) -> Contradiction:
    """Numbers that something else must be behind."""
    return Contradiction(kind="suspicious", says=says, means=means)


def claimed_floor(facts: Facts, found: Arithmetic) -> Iterator[Contradiction]:
    """A latency that is called a floor must fit into every step that has as many of them."""
    floor, count = facts.claims.allreduce_floor_us, found.collectives
    if floor is None or not count:
        return
    needs = count * floor / 1e3
    for name, length in (("baseline", found.base_ms), ("verify", found.verify_ms)):
        if length is not None and needs > length:
            most = length / count * 1e3
            yield impossible(
                f"these {count} collectives cannot cost {floor:g} µs each: that is {needs:.1f} ms, and your {name} "
                f"step has only {length:.1f} ms",
                f"{floor:g} µs is no floor of this machine: there, an all-reduce takes {most:.0f} µs at most",
            )


def idle_claims(facts: Facts, found: Arithmetic) -> Iterator[Contradiction]:
    """A collective is a kernel: while it runs, the GPU is busy, also when it only waits."""
    claimed = facts.claims.idle_share if facts.claims.idle_share is not None else facts.speculation.idle_share
    if claimed is None or found.verify_ms is None or found.collective_ms is None:
        return
    most = 1 - found.collective_ms / found.verify_ms
    if claimed > most + TOLERANCE / 10:
        yield impossible(
            f"the GPUs cannot idle for {claimed:.0%} of the step: collectives run for {found.collective_ms:.1f} of "
            f"{found.verify_ms:.1f} ms, so at most {max(most, 0):.0%} is without a kernel",
            "what looks idle in a graph of power is a collective that waits for the slowest rank, or the two numbers "
            "are of different steps",
        )


def step_parts(facts: Facts, found: Arithmetic) -> Iterator[Contradiction]:
    """A part is not longer than its whole, and two ways to one number agree."""
    spec = facts.speculation
    if found.verify_ms is not None and found.collective_ms is not None and found.collective_ms > found.verify_ms:
        yield impossible(
            f"collectives take {found.collective_ms:.1f} ms of a step of {found.verify_ms:.1f} ms",
            "they overlap in several streams, or the numbers are of different steps",
        )
    base, base_collective = found.base_ms, facts.baseline.collective_ms
    if base is not None and base_collective is not None and base_collective > base:
        yield impossible(
            f"collectives take {base_collective:.1f} ms of a baseline step of {base:.1f} ms",
            "they overlap in several streams, or the numbers are of different steps",
        )
    if spec.collective_ms is not None and spec.allreduce_us is not None and found.collectives:
        product = spec.allreduce_us * found.collectives / 1e3
        if differ(product, spec.collective_ms):
            yield impossible(
                f"{found.collectives} × {spec.allreduce_us:g} µs are {product:.1f} ms, not {spec.collective_ms:g} ms",
                "the number of collectives, or one of the times, is of something else",
            )
    if facts.baseline.step_ms and facts.baseline.tok_s and differ(facts.baseline.step_ms, 1e3 / facts.baseline.tok_s):
        yield suspicious(
            f"{facts.baseline.tok_s:g} tok/s are {1e3 / facts.baseline.tok_s:.1f} ms a token, and a step is said to "
            f"take {facts.baseline.step_ms:g} ms",
            "several requests share a step, time passes between steps, or the step was profiled, which slows it",
        )


def token_counts(facts: Facts, found: Arithmetic) -> Iterator[Contradiction]:
    """A round of g drafts yields between 1 and g + 1 tokens, whatever way it is counted."""
    spec = facts.speculation
    if spec.acceptance and not is_decreasing(spec.acceptance):
        yield impossible(
            f"acceptance {', '.join(f'{one:g}' for one in spec.acceptance)} rises from one position to the next",
            "these are conditional probabilities; multiply them up, as position i needs all before it",
        )
    claimed = facts.claims.tokens_per_verify or (found.tokens[0] if found.tokens else None)
    if claimed is not None and found.drafts is not None and not 0.98 <= claimed <= found.drafts + 1.02:  # noqa: PLR2004  (rounding)
        yield impossible(
            f"a round of {found.drafts} drafts yields between 1 and {found.drafts + 1} tokens, not {claimed:.2f}",
            "engines count differently: with or without the bonus token, per drafted token or per step",
        )
    told = spec.tokens_per_verify or (expected_tokens(spec.acceptance) if spec.acceptance else None)
    if spec.tok_s is None or found.verify_ms is None or told is None:
        return
    ends = by_rate(spec.tok_s, found.verify_ms, found.draft_ms)
    if not ends[0] * (1 - TOLERANCE) <= told <= ends[1] * (1 + TOLERANCE):
        yield suspicious(
            f"{spec.tok_s:g} tok/s at rounds of {found.verify_ms:.1f} ms and more are {ends[0]:.2f} to "
            f"{ends[1]:.2f} tokens a round, and acceptance says {told:.2f}",
            "drafting or scheduling takes longer than thought, or acceptance is of other prompts",
        )


def message_sizes(facts: Facts, found: Arithmetic) -> Iterator[Contradiction]:
    """A message holds a whole number of tokens, one more than were drafted."""
    size = facts.speculation.message_bytes
    held = tokens_in(facts.model, size) if size else None
    if held is None:
        return
    if held < 0.9 or abs(held - round(held)) > 0.05 * held:  # noqa: PLR2004  (42 KB is written for 43,008 bytes)
        yield suspicious(
            f"a message of {size:g} bytes holds {held:.2f} tokens",
            "width, precision or padding is another than said, or the collective is not the layer's all-reduce",
        )
    elif found.drafts is not None and round(held) != found.drafts + 1:
        yield suspicious(
            f"a message of {size:g} bytes holds {held:.0f} tokens, and {found.drafts} drafts make a verify of "
            f"{found.drafts + 1}",
            "the batch is padded, a tree is verified, or several requests ran",
        )


def floors(found: Arithmetic) -> Iterator[Contradiction]:
    """Nothing is faster than memory and arithmetic allow."""
    steps = (("baseline", found.base_ms, found.base_floor_ms), ("verify", found.verify_ms, found.verify_floor_ms))
    for name, length, floor in steps:
        if length is not None and floor is not None and floor > length:
            yield impossible(
                f"a {name} step of {length:.1f} ms is shorter than its weights take to read ({floor:.1f} ms)",
                "precision, memory bandwidth, GPUs or experts are not what was said",
            )


def jumps(found: Arithmetic) -> Iterator[Contradiction]:
    """An all-reduce that gets far slower than its bytes explain has changed its kind, not its size."""
    slope = marginal_ns_per_byte(found)
    before, after = found.base_allreduce_us, found.allreduce_us
    if slope is not None and before and after and after > CHANGE * before and 1 / slope < SLOW_GB_S:
        more = (found.verify_bytes or 0) / (found.base_bytes or 1)
        yield suspicious(
            f"a message {more:.1f} times as large takes {after / before:.1f} times as long ({before:.0f} to "
            f"{after:.0f} µs): its further bytes travel at {1 / slope:.1g} GB/s",
            "bandwidth does not explain that: another protocol or transport, an eager verify, or waiting for a slow "
            "rank. Finding that change is cheaper than replacing the communicator",
        )
    healthy = found.verify_cost.us if found.verify_cost else None
    if after is not None and healthy is not None and after > 2 * max(healthy, HEALTHY_PCIE_US[1]):
        unexplained = (found.collectives or 0) * (after - max(healthy, HEALTHY_PCIE_US[1])) / 1e3
        yield suspicious(
            f"an all-reduce of {after:.0f} µs is far above what NCCL's own model says ({healthy:.0f} µs) and above "
            f"what healthy PCIe machines measure ({HEALTHY_PCIE_US[0]:.0f} to {HEALTHY_PCIE_US[1]:.0f} µs)",
            f"about {unexplained:.0f} ms of the step have a cause that can be found",
        )


def differ(one: float, other: float) -> bool:
    """Whether two numbers are further apart than rounding and profiling explain."""
    return abs(one - other) > TOLERANCE * max(abs(one), abs(other))
