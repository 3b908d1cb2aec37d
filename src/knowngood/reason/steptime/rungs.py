"""Which rungs fit a budget: checks first, then what could remove the principal cost, then what is dear."""

from collections.abc import Iterator

from knowngood.model.change import Edit, Env, Flag
from knowngood.model.profile import Catalogue
from knowngood.model.steptime import Facts, WhatIf
from knowngood.reason.steptime.arithmetic import Arithmetic
from knowngood.reason.steptime.budget import Budget, target_us
from knowngood.reason.steptime.collectives import HEALTHY_PCIE_US
from knowngood.reason.steptime.ladder import Rung, with_knobs

NOTHING = (-0.02, 0.02)
WORST = -0.05
COMM = {"transport", "waiting"}
IPC_RANKS = {2, 4, 8}
SGLANG_DRAFT_FLAGS = (
    "--speculative-algorithm",
    "--speculative-draft-model-path",
    "--speculative-num-steps",
    "--speculative-eagle-topk",
    "--speculative-num-draft-tokens",
)
SPECULATION_FLAGS = {
    "sglang": SGLANG_DRAFT_FLAGS,
    "vllm": ("--speculative-config",),
    "llamacpp": ("--spec-type", "--spec-draft-model"),
}
PATCHED_SGLANG = "0.5.9"
GATE = "(_is_sm90_supported or _is_sm100_supported)"
WIDER_GATE = "(_is_sm90_supported or _is_sm100_supported or _is_sm120_supported)"


def ladder(facts: Facts, found: Arithmetic, drawn: Budget, catalogue: Catalogue) -> tuple[Rung, ...]:
    """All rungs that fit, the cheapest first.

    Args:
        facts: What was given.
        found: What follows from it.
        drawn: The budget.
        catalogue: Knobs with their dangers and proofs.
    """
    kind = drawn.principal.kind if drawn.principal else "kernels"
    rungs = [*looks(facts, found, drawn)]
    if kind in COMM:
        rungs += [*transport(facts, found), *communicators(facts, found)]
    if kind == "idle":
        rungs += idleness(facts)
    if kind == "memory":
        rungs += memory(facts)
    if found.verify_ms is not None:
        rungs += [*depths(facts, found), *without_speculation(facts, found)]
    return tuple(with_knobs(rung, catalogue) for rung in sorted(rungs, key=lambda rung: rung.rank))


def looks(facts: Facts, found: Arithmetic, drawn: Budget) -> Iterator[Rung]:
    """Checks that change nothing; each can end the search."""
    many = (facts.hardware.gpus or 1) > 1
    if facts.server.cuda_graph is None and facts.server.engine != "llamacpp":
        yield Rung(
            rank=0,
            name="look-cuda-graph",
            claim="The verify step runs as a CUDA graph",
            because="an eager verify launches every kernel by hand, and its collectives then start apart on each rank",
            command="grep -m 5 'cuda graph:' server.log    # then: knowngood explain facts.toml server.log",
            proof=("'cuda graph: True' on decode lines",),
        )
    if many:
        yield Rung(
            rank=0,
            name="look-topology",
            claim="The GPUs reach each other as you think",
            because="root ports and sockets between GPUs decide whether NCCL goes through host memory",
            command="nvidia-smi topo -m > topo.txt && knowngood explain facts.toml topo.txt",
            proof=("PIX or PXB: directly; PHB, NODE, SYS: through host memory by NCCL's default since 2.23.4",),
        )
        yield Rung(
            rank=0,
            name="look-links",
            claim="Every PCIe link runs at full width and speed, and the clocks are up",
            because="one card that fell back to x1 slows every collective of the group",
            command="nvidia-smi --format=csv --query-gpu="
            "index,pcie.link.gen.current,pcie.link.width.current,clocks.sm,power.draw",
            proof=("all rows alike, under load",),
        )
    if drawn.principal is not None and drawn.principal.kind in COMM and many:
        yield Rung(
            rank=0,
            name="look-waiting",
            claim="Collectives wait for a slow rank",
            because="a collective's kernel runs until the last rank has come: its time is transport and waiting in one",
            command="knowngood explain facts.toml trace-TP-*.json.gz",
            proof=("the shortest duration among the ranks is transport, the rest is waiting",),
        )
        sizes = sorted({int(size) for size in (found.base_bytes, found.verify_bytes) if size})
        if sizes:
            step = sizes[1] - sizes[0] if len(sizes) > 1 else sizes[0]
            yield Rung(
                rank=1,
                name="measure-nccl",
                claim="NCCL alone is as slow as in the server",
                because="if it is fast at both sizes under graphs, the time is not the transport's",
                command=f"all_reduce_perf -b {sizes[0]} -e {sizes[-1]} -i {step} -g {facts.hardware.gpus} -d bfloat16 "
                "-G 10 -w 20 -n 100 > nccl-tests.txt && knowngood explain facts.toml nccl-tests.txt",
                risk=("it needs the GPUs: stop the server first",),
                proof=("column time, out of place; #wrong is 0",),
            )


def transport(facts: Facts, found: Arithmetic) -> Iterator[Rung]:
    """One variable each, about how NCCL moves a message."""
    if facts.hardware.gpus is not None and facts.hardware.gpus < 2:  # noqa: PLR2004  (one GPU reduces nothing)
        return
    because = reason(found)
    subsystems = Env(name="NCCL_DEBUG_SUBSYS", value="INIT,ENV,P2P,SHM,GRAPH,TUNING")
    yield Rung(
        rank=2,
        name="nccl-says",
        claim="NCCL's log tells transport, algorithm and protocol of this message; the speed stays",
        because="a kernel's name proves no protocol: RING_LL in it is what every ring kernel is called",
        members=(Env(name="NCCL_DEBUG", value="INFO"), subsystems),
        predicts=NOTHING,
    )
    if facts.hardware.link == "pcie" and not facts.server.transport.startswith("P2P"):
        yield Rung(
            rank=2,
            name="nccl-p2p-sys",
            claim="NCCL goes through host memory here; P2P across root ports and sockets is faster",
            because=because,
            members=(Env(name="NCCL_P2P_LEVEL", value="SYS"),),
            predicts=gain(facts, found),
            risk=("can hang at the first collective, and leave GPUs at 100 % until a reset",),
        )
    if facts.server.protocol.upper() not in {"RING LL", "TREE LL"}:
        yield Rung(
            rank=2,
            name="nccl-proto-ll",
            claim="NCCL takes another protocol than LL for this size, and LL is faster",
            because=because,
            members=(Env(name="NCCL_PROTO", value="LL"),),
            predicts=gain(facts, found),
            risk=("prefill uses the same protocol, at half the bandwidth",),
        )
    yield Rung(
        rank=2,
        name="nccl-algo-tree",
        claim="A tree is faster than the ring for this size",
        because=because,
        members=(Env(name="NCCL_ALGO", value="Tree"),),
        predicts=(WORST, max(0.05, gain(facts, found)[1] / 2)),
    )


def communicators(facts: Facts, found: Arithmetic) -> Iterator[Rung]:
    """All-reduce kernels other than NCCL's."""
    ranks, link, engine = facts.hardware.gpus, facts.hardware.link, facts.server.engine
    if link == "pcie" and ranks in IPC_RANKS and engine in {"sglang", "vllm", ""}:
        names = {"vllm": "VLLM_ALLREDUCE_USE_FLASHINFER_PCIE_IPC"}
        yield Rung(
            rank=4,
            name="pcie-ipc",
            claim="FlashInfer's PCIe-IPC all-reduce replaces NCCL for small messages",
            because=reason(found),
            members=(Env(name=names.get(engine, "SGLANG_ENABLE_PCIE_IPC_ALLREDUCE"), value="1"),),
            predicts=gain(facts, found),
            risk=("an older server ignores the variable: without the proof, the baseline was measured",),
        )
    if engine == "sglang" and link == "nvlink":
        yield Rung(
            rank=4,
            name="fused-allreduce",
            claim="All-reduce, residual and norm in one kernel are faster than three",
            because=reason(found),
            members=(Flag(flag="--enable-flashinfer-allreduce-fusion"),),
            predicts=(WORST, 0.15),
        )
    if engine == "sglang" and link == "pcie":
        yield from widen_gate(facts, found)


def widen_gate(facts: Facts, found: Arithmetic) -> Iterator[Rung]:
    """The source patch: last, because a wider gate can launch a kernel that computes nothing."""
    danger = (
        "the kernels behind the gate may be empty for this GPU: garbage without an error; keep `answers` on",
        "FlashInfer before 0.6.17 has no such kernels for SM12x",
    )
    if facts.server.version == PATCHED_SGLANG:
        yield Rung(
            rank=5,
            name="widen-fusion-gate",
            claim="Fused all-reduce works and is faster on this GPU",
            because=reason(found),
            members=(
                Edit(path="python:sglang/srt/layers/communicator.py", find=GATE, replace=WIDER_GATE),
                Flag(flag="--enable-flashinfer-allreduce-fusion"),
            ),
            predicts=gain(facts, found),
            risk=danger,
            proof=("answers agree, and acceptance stays where it was",),
            constraints=("every member together, or the flag is ignored",),
        )
    else:
        yield Rung(
            rank=5,
            name="widen-fusion-gate",
            claim="Fused all-reduce works and is faster on this GPU",
            because=reason(found),
            command="edit the gate by hand, then: knowngood capture    # its text is known to us for SGLang "
            f"{PATCHED_SGLANG} only",
            risk=danger,
            proof=("answers agree, and acceptance stays where it was",),
        )


def depths(facts: Facts, found: Arithmetic) -> Iterator[Rung]:
    """One draft fewer and one more: they separate size from skew, and may pay by themselves."""
    if facts.server.engine not in {"sglang", "llamacpp"} or found.drafts is None:
        return
    for drafts in sorted({max(1, found.drafts - 1), found.drafts + 1} - {found.drafts}):
        members = (
            (
                Flag(flag="--speculative-num-steps", value=str(drafts)),
                Flag(flag="--speculative-num-draft-tokens", value=str(drafts + 1)),
            )
            if facts.server.engine == "sglang"
            else (Flag(flag="--spec-draft-n-max", value=str(drafts)),)
        )
        yield Rung(
            rank=3,
            name=f"draft-{drafts}",
            claim=f"Draft depth {drafts} is better than {found.drafts}",
            because="PCIe machines favour short drafts; time against size tells transport from waiting",
            members=members,
            predicts=(-0.2, 0.2),
        )


def without_speculation(facts: Facts, found: Arithmetic) -> Iterator[Rung]:
    """The other arm: the server without drafts."""
    flags = SPECULATION_FLAGS.get(facts.server.engine, ())
    now = found.round(end=0)
    if not flags or now is None:
        return
    change = now.base_tok_s / now.tok_s - 1
    yield Rung(
        rank=2,
        name="no-speculation",
        claim="Without speculation this server is faster" if change > 0 else "Speculation pays",
        because=f"{now.base_tok_s:.0f} tok/s without, {now.tok_s:.0f} with it",
        members=tuple(Flag(flag=flag, remove=True) for flag in flags),
        predicts=(change - 0.05, change + 0.05),
    )


def idleness(facts: Facts) -> list[Rung]:
    """Time without a kernel is the host's: launches, scheduling, sampling."""
    because = "no kernel runs for the largest part of the step: the host is late"
    by_engine = {
        "sglang": Flag(flag="--num-continuous-decode-steps", value="4"),
        "vllm": Flag(flag="--async-scheduling"),
    }
    member = by_engine.get(facts.server.engine)
    if member is None:
        return []
    return [
        Rung(
            rank=2,
            name="less-host-work",
            claim="The scheduler runs ahead of the GPU",
            because=because,
            members=(member,),
            predicts=(WORST, 0.2),
        )
    ]


def memory(facts: Facts) -> list[Rung]:
    """Weights and caches that are read every step: fewer bytes are the only way, and they change answers."""
    if facts.server.engine not in {"sglang", "vllm"}:
        return []
    return [
        Rung(
            rank=2,
            name="kv-fp8",
            claim="Half the bytes of the KV cache shorten attention",
            because="the step is bound by what it reads",
            members=(Flag(flag="--kv-cache-dtype", value="fp8_e5m2" if facts.server.engine == "sglang" else "fp8"),),
            predicts=(WORST, 0.1),
        )
    ]


def reason(found: Arithmetic) -> str:
    """Why transport is worth a trial, with the numbers."""
    if found.allreduce_us is None or found.collectives is None:
        return "all-reduce is the largest part of the step"
    taken = found.collective_ms or 0.0
    return f"{found.collectives} all-reduces of {found.allreduce_us:.0f} µs take {taken:.1f} ms of the step"


def gain(facts: Facts, found: Arithmetic) -> tuple[float, float]:
    """Change of the rate if an all-reduce became as fast as healthy machines have it; no more than that is promised.

    The upper end is the slower of NCCL's model and what healthy PCIe machines measure: the model knows no skew.
    """
    target = target_us(facts, found)
    if target is None:
        return (WORST, 0.5)
    if facts.hardware.link == "pcie":
        target = max(target, HEALTHY_PCIE_US[1])
    now = found.round(end=1)
    if now is not None:
        then = found.round(end=1, what_if=WhatIf(allreduce_us=min(target, now.allreduce_us)))
        return (WORST, max(0.0, then.tok_s / now.tok_s - 1) if then else 0.0)
    step, us, count = found.base_ms, found.base_allreduce_us, found.collectives
    if step is None or us is None or count is None:
        return (WORST, 0.5)
    saved = max(0.0, us - target) * count / 1e3
    return (WORST, step / (step - saved) - 1 if saved < step else 0.0)
