"""What readers found becomes facts. A number that was given stays; what was read fills the gaps."""

from collections.abc import Sequence

import msgspec

from knowngood.model.profile import EngineStats, KernelTotals, NcclLog, NcclTest, StepProfile, Timeline, Topology
from knowngood.model.steptime import Facts
from knowngood.reason.steptime.collectives import message_bytes, per_step

Read = Timeline | KernelTotals | NcclLog | NcclTest | Topology | EngineStats
Seen = StepProfile | NcclLog | NcclTest | Topology | EngineStats
NEAR = 0.15
HOST_MEMORY = {"PHB", "NODE", "SYS"}
replace = msgspec.structs.replace


def with_evidence(facts: Facts, seen: Sequence[Seen]) -> tuple[Facts, tuple[str, ...]]:
    """Fill gaps of the facts.

    Args:
        facts: What was given.
        seen: What was read.

    Returns:
        The facts, and what a reader should know, one line each.
    """
    notes: list[str] = []
    for one in seen:
        match one:
            case StepProfile():
                facts = with_profile(facts, one)
            case NcclLog():
                facts = with_log(facts, one, notes)
            case NcclTest():
                notes += tests(facts, one)
            case Topology():
                facts = with_topology(facts, one, notes)
            case EngineStats():
                facts = with_stats(facts, one, notes)
    return facts, tuple(notes)


def with_profile(facts: Facts, profile: StepProfile) -> Facts:
    """Shares of a profile, applied to lengths that were measured without it; a profile alone gives no length."""
    comm = sum(part.ms for part in profile.parts if part.category.startswith("comm"))
    if profile.step_ms <= 0:
        return facts
    share, idle = comm / profile.step_ms, profile.idle_ms / profile.step_ms
    spec, base = facts.speculation, facts.baseline
    if spec.verify_ms is not None:
        if spec.collective_ms is None and spec.allreduce_us is None:
            spec = replace(spec, collective_ms=share * spec.verify_ms)
        return replace(
            facts, speculation=replace(spec, idle_share=idle if spec.idle_share is None else spec.idle_share)
        )
    length = base.step_ms or (1e3 / base.tok_s if base.tok_s else None)
    if length is None:
        return facts
    base = replace(
        base,
        collective_ms=share * length if base.collective_ms is None else base.collective_ms,
        idle_share=idle if base.idle_share is None else base.idle_share,
    )
    return replace(facts, baseline=base)


def with_log(facts: Facts, log: NcclLog, notes: list[str]) -> Facts:
    """Version, ranks, transport, and what ran for the step's message."""
    server, hardware = facts.server, facts.hardware
    transport = next(iter(log.transports), "")
    size = facts.speculation.message_bytes or message_bytes(facts.model, (facts.speculation.drafts or 0) + 1)
    here = [
        one for one in log.enqueued if one.collective == "AllReduce" and size and abs(one.size - size) <= NEAR * size
    ]
    ran = max(here, key=lambda one: one.count, default=None)
    if log.transports:
        told = ", ".join(f"{name} ({count})" for name, count in log.transports.items())
        notes.append(f"{log.source}: NCCL's connections go via {told}")
    notes += [f"{log.source}: an all-reduce of {one.size} bytes ran as {one.algorithm} {one.protocol}" for one in here]
    if log.graph_gb_s is not None and log.graph_gb_s < 1:
        notes.append(f"{log.source}: NCCL found a graph of {log.graph_gb_s:g} GB/s only, which is pathological")
    if log.ready and not log.enqueued and log.env.get("NCCL_DEBUG_SUBSYS", "").find("TUNING") < 0:
        notes.append(f"{log.source}: what ran is not in it; NCCL_DEBUG_SUBSYS must name TUNING")
    notes += [f"{log.source}: NCCL warns: {warning}" for warning in log.warnings]
    return replace(
        facts,
        server=replace(
            server,
            nccl=server.nccl or log.version,
            transport=server.transport or transport,
            protocol=server.protocol or (f"{ran.algorithm} {ran.protocol}" if ran else ""),
        ),
        hardware=replace(hardware, gpus=hardware.gpus or log.ranks or None),
    )


def tests(facts: Facts, test: NcclTest) -> list[str]:
    """What NCCL alone takes, beside what it takes in the server."""
    notes = [f"{test.source}: {row.wrong} elements are wrong at {row.size} bytes" for row in test.rows if row.wrong]
    spec, count = facts.speculation, (facts.model.layers or 0) * facts.model.allreduces_per_layer
    inside = spec.collective_ms / count * 1e3 if spec.collective_ms and count else spec.allreduce_us
    size = spec.message_bytes or message_bytes(facts.model, (spec.drafts or 0) + 1)
    near = min(test.rows, key=lambda row: abs(row.size - (size or 0)))
    how = "under CUDA graphs" if test.graphs else "without CUDA graphs (-G 10 imitates a server)"
    if size and abs(near.size - size) <= NEAR * size:
        beside = f", in the server {inside:.0f} µs" if inside else ""
        notes.append(f"{test.source}: {near.size} bytes take {near.us:g} µs {how}{beside}")
    elif size:
        notes.append(f"{test.source}: no row near {size:.0f} bytes, the step's own size")
    return notes


def with_topology(facts: Facts, seen: Topology, notes: list[str]) -> Facts:
    """Link and number of GPUs."""
    hardware = facts.hardware
    told = ", ".join(f"{name} × {count}" for name, count in seen.links.items())
    notes.append(f"{seen.source}: {seen.gpus} GPUs on {seen.sockets or 'unknown'} NUMA nodes; pairs: {told or 'none'}")
    if seen.worst in HOST_MEMORY:
        notes.append(
            f"{seen.source}: pairs at {seen.worst} go through host memory by NCCL's default (2.23.4 and later)"
        )
    link = hardware.link or ("nvlink" if seen.nvlink else "pcie" if seen.links else None)
    return replace(facts, hardware=replace(hardware, link=link, gpus=hardware.gpus or seen.gpus))


def with_stats(facts: Facts, stats: EngineStats, notes: list[str]) -> Facts:
    """Acceptance, rate, and whether graphs are used."""
    server, spec, base = facts.server, facts.speculation, facts.baseline
    if stats.cuda_graph is False:
        notes.append(f"{stats.source}: decode steps run without CUDA graphs")
    server = replace(
        server,
        engine=server.engine or stats.engine,
        cuda_graph=stats.cuda_graph if server.cuda_graph is None else server.cuda_graph,
    )
    speculates = bool(stats.tokens_per_verify or stats.acceptance)
    if not speculates:
        base = replace(base, tok_s=stats.tok_s if base.tok_s is None and base.step_ms is None else base.tok_s)
        return replace(facts, server=server, baseline=base)
    spec = replace(
        spec,
        tokens_per_verify=spec.tokens_per_verify or (None if spec.acceptance else stats.tokens_per_verify),
        acceptance=spec.acceptance or stats.acceptance,
        drafts=spec.drafts or stats.drafts,
        tok_s=spec.tok_s or stats.tok_s,
    )
    return replace(facts, server=server, speculation=spec)


def gather(facts: Facts, read: Sequence[Read]) -> tuple[Facts, tuple[StepProfile, ...], tuple[str, ...]]:
    """Everything that was read, in one.

    Args:
        facts: What was given.
        read: What the readers returned; timelines belong to one run, one a rank.

    Returns:
        The facts with their gaps filled, the profile of a step if there is any, and what a reader should know.
    """
    timelines = [one for one in read if isinstance(one, Timeline)]
    totals = [one for one in read if isinstance(one, KernelTotals)]
    profile = None
    if timelines or totals:
        # numpy takes longer to load than all of this without a trace
        from knowngood.reason.steptime.attribute import as_profile, attribute  # noqa: PLC0415

        profile = attribute(timelines, per_step=per_step(facts.model)) if timelines else as_profile(totals[0])
    others = [one for one in read if not isinstance(one, Timeline | KernelTotals)]
    facts, notes = with_evidence(facts, [*([profile] if profile else []), *others])
    return facts, (profile,) if profile else (), notes
