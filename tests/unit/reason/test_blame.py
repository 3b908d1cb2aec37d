"""Who is guilty: each kind of evidence, then the founding case with the real rules."""

import pytest

from knowngood.config.rules import shipped_rules
from knowngood.model.change import Change, ChangeSet, Edit, Env, File, Flag, Patch, Pin, Setting, describe
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.verdict import Verdict
from knowngood.reason.blame import SURE, blame
from knowngood.reason.diagnose import diagnose
from knowngood.reason.findings import dead_end, learn

OTHERS = (Flag(flag="--fas"), Env(name="ALGO", value="1"), Flag(flag="-x", value="3"))
FRAMES = ("/py/engine/core.py", "/py/engine/layers/norm.py", "/py/kernels/jit.py")


def found(line: str = "disk full", **more: object) -> Diagnosis:
    return Diagnosis(cause="engine_bug", line=line, line_number=1, confidence=0.9, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("diagnosis", "change"),
    [
        (found("bad argument --fast"), Flag(flag="--fast")),
        (found("cannot open /srv/m.bin"), Flag(flag="-m", value="/srv/m.bin")),
        (found("enable_fast_path needs two GPUs"), Flag(flag="--enable-fast-path")),
        (found("NCCL_ALGO is not known"), Env(name="NCCL_ALGO", value="x")),
        (found("mod.py line 3: oops"), Edit(path="/srv/mod.py", find="a", replace="b")),
        (found("cannot parse /srv/c.json"), File(path="/srv/c.json", content=b"")),
        (found("/srv/pkg is broken"), Patch(name="p", root="/srv/pkg", diff=b"")),
        (found("vm.overcommit_memory is 2"), Setting(name="vm.overcommit_memory", value="2")),
        (found(flags=("-o",)), Flag(flag="--output", value="1")),
        (found(env=("TMPDIR",)), Env(name="TMPDIR", value="/x")),
        (found(frames=FRAMES), Edit(path="python:kernels/jit.py", find="a", replace="b")),
        (found(frames=FRAMES), Edit(path="/other/root/engine/layers/norm.py", find="a", replace="b")),
        (found(frames=FRAMES), Patch(name="p", root="/py", diff=b"--- a/engine/core.py\n+++ b/engine/core.py\n")),
        (found(frames=FRAMES), Pin(requirement="kernels==2.0")),
        (found(about=("sm120",)), Edit(path="/a.py", find="is_sm90", replace="is_sm120")),
        (found(rule="nccl/watchdog"), Env(name="NCCL_PROTO", value="LL")),
    ],
)
def test_evidence_finds_the_guilty_member(diagnosis: Diagnosis, change: Change) -> None:
    aliases = {"-o": "--output"}
    blamed = blame(diagnosis, (*OTHERS, change), aliases=aliases)
    assert blamed.member == describe(change)
    assert blamed.sure > 0.5
    assert blamed.suspects[0].evidence
    assert not blame(diagnosis, OTHERS, aliases=aliases).member


def test_where_nothing_speaks_against_a_member_isolate_decides() -> None:
    blamed = blame(found(), OTHERS)
    assert (blamed.member, blamed.sure) == ("", 0.0)
    assert "isolate" in blamed.next[0]


def test_weak_evidence_names_a_member_and_still_asks_for_isolate() -> None:
    blamed = blame(found(rule="nccl/watchdog"), (*OTHERS, Env(name="NCCL_PROTO", value="LL")))
    assert blamed.sure < SURE
    assert "isolate" in blamed.next[0]


def test_a_lone_member_is_guilty_because_the_baseline_came_up() -> None:
    blamed = blame(found(), (Flag(flag="--fast"),))
    assert (blamed.member, blamed.next) == ("flag --fast", ())
    assert blamed.sure >= SURE


@pytest.mark.parametrize("cause", ["gpu_hardware_fault", "gpu_memory_taken_by_others", "external_kill_or_probe"])
def test_what_comes_from_outside_is_nobodys_fault(cause: str) -> None:
    diagnosis = Diagnosis(cause=cause, line="--fast", line_number=1, confidence=0.9)
    assert blame(diagnosis, (Flag(flag="--fast"),)) == diagnosis


def test_nobody_is_blamed_without_a_cause() -> None:
    diagnosis = Diagnosis(cause="unknown", line="--fast failed", line_number=1, abstained=True)
    blamed = blame(diagnosis, (Flag(flag="--fast"), Flag(flag="--slow")))
    assert (blamed.member, blamed.sure) == ("", 0.0)
    assert "isolate" in blamed.next[0]


COMMUNICATOR = Edit(
    path="python:sglang/srt/layers/communicator.py",
    find="(_is_sm90_supported or _is_sm100_supported)",
    replace="(_is_sm90_supported or _is_sm100_supported or _is_sm120_supported)",
)
ARGUMENTS = Edit(
    path="python:sglang/srt/server_args.py",
    find="and (is_sm90_supported() or is_sm100_supported())",
    replace="and (is_sm90_supported() or is_sm100_supported() or is_sm120_supported())",
)
NCCL = tuple(
    Env(name=name, value=value)
    for name, value in (("NCCL_MAX_NCHANNELS", "4"), ("NCCL_MIN_NCHANNELS", "1"), ("NCCL_BUFFSIZE", "1048576"))
)
BUNDLE = (COMMUNICATOR, *NCCL, ARGUMENTS)
CALLS = (
    ("sglang/srt/managers/scheduler.py", 2012, "run_scheduler_process"),
    ("sglang/srt/model_executor/cuda_graph_runner.py", 384, "capture_one_batch_size"),
    ("sglang/srt/models/deepseek_v2.py", 2301, "forward"),
    ("sglang/srt/layers/communicator.py", 101, "prepare_mlp"),
    ("sglang/srt/layers/layernorm.py", 220, "forward_with_allreduce_fusion"),
    ("sglang/srt/layers/flashinfer_comm_fusion.py", 88, "initialize"),
    ("flashinfer/comm/trtllm_ar.py", 450, "get_trtllm_comm_module"),
    ("flashinfer/jit/comm.py", 61, "gen_trtllm_comm_module"),
    ("flashinfer/compilation_context.py", 62, "get_nvcc_flags_list"),
)
CRASH = "RuntimeError: No supported CUDA architectures found for major versions [9, 10]."


def founding_log() -> bytes:
    """A launch on eight ranks: hundreds of ordinary lines, one rank's traceback deep inside, the parent's words."""
    tag = "[2026-01-06 06:49:56 TP"
    lines = ["[2026-01-06 06:49:00] server_args=ServerArgs(model_path='m', tp_size=8, disable_custom_all_reduce=False)"]
    lines += [f"{tag}{rank}] Init torch distributed begin." for rank in range(8)]
    lines += [
        f"host:11{rank}:11{rank} [{rank}] NCCL INFO NCCL_BUFFSIZE set by environment to 1048576." for rank in range(8)
    ]
    lines += [f"host:11{rank}:20{rank} [{rank}] NCCL INFO Connected all trees" for rank in range(8)]
    lines += [f"{tag}{rank}] Load weight begin. avail mem=94.{rank} GB" for rank in range(8)]
    lines += [f"Loading safetensors checkpoint shards: {n}% Completed | {n}/100" for n in range(100)]
    lines += [f"{tag}{n % 8}] Using default MoE config. Performance might be sub-optimal!" for n in range(80)]
    lines += ["WARNING Custom allreduce is disabled because it's not supported on more than two PCIe-only GPUs."]
    lines += [f"{tag}{rank}] Capture cuda graph begin. This can take up to several minutes." for rank in range(8)]
    lines += [f"{tag}3] Scheduler hit an exception: Traceback (most recent call last):"]
    for path, number, name in CALLS:
        lines += [
            f'  File "/usr/lib/python3/dist-packages/{path}", line {number}, in {name}',
            "    return self.run(batch)",
        ]
    lines += [CRASH, ""]
    lines += [f"Exception: Capture cuda graph failed: {CRASH.partition(': ')[2]}", "Possible solutions:"]
    lines += ["1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)", "4. disable CUDA graph"]
    lines += ["[2026-01-06 06:50:07] Received sigquit from a child process. It usually means the child failed."]
    return "\n".join(lines).encode()


def founding() -> Diagnosis:
    return blame(diagnose([founding_log()], shipped_rules()), BUNDLE)


def test_the_founding_case_blames_the_edits_and_clears_the_environment() -> None:
    blamed = founding()
    assert (blamed.line, blamed.cause, blamed.hard) == (CRASH, "arch_kernel_unsupported", True)
    assert blamed.member == f"{describe(COMMUNICATOR)} and {describe(ARGUMENTS)}"
    assert blamed.sure >= SURE
    assert "GPU generation" in blamed.scope
    assert "FlashInfer's version" in blamed.retest
    sure = {suspect.member: suspect.sure for suspect in blamed.suspects}
    assert all(sure[describe(one)] < 0.1 for one in NCCL)
    assert blamed.next == (f"try by itself, it was not tested: {', '.join(describe(one) for one in NCCL)}",)


def test_the_dead_end_is_the_edits_whatever_else_is_set_and_the_environment_stays_open() -> None:
    finding = learn(
        number=1,
        trial="t0001",
        hypothesis=Hypothesis(name="bundle", claim="faster", changes=ChangeSet(members=BUNDLE)),
        verdict=Verdict(decision="void", why="it ended"),
        diagnosis=founding(),
        facts={"engine": "sglang", "engine_version": "0.5.9"},
    )
    assert finding is not None
    assert (finding.sign, finding.quote) == ("impossible", CRASH)
    assert "FlashInfer's version" in finding.reopens
    facts = {"engine": "sglang", "engine_version": "0.5.9"}

    def covered(*members: Change, facts: dict[str, str] = facts) -> bool:
        return dead_end([finding], ChangeSet(members=members), facts) is not None

    assert covered(*BUNDLE)
    assert covered(ARGUMENTS, COMMUNICATOR)
    assert covered(COMMUNICATOR, ARGUMENTS, Flag(flag="--tp-size", value="8"))
    assert not covered(*NCCL)
    assert not covered(COMMUNICATOR)
    # Another version of the library, or of the engine, opens it again.
    assert not covered(COMMUNICATOR, ARGUMENTS, Pin(requirement="flashinfer-python==0.6.17"))
    assert not covered(*BUNDLE, facts={**facts, "engine_version": "0.5.23"})


def test_a_version_that_catches_the_error_is_not_diagnosed_as_its_crash() -> None:
    caught = (
        "[2026-01-06 06:49:56 TP0] WARNING Failed to initialize FlashInfer workspace: No supported CUDA architectures found "
        "for major versions [9, 10]. Disabling flashinfer allreduce fusion permanently."
    )
    log = founding_log().decode().partition("[2026-01-06 06:49:56 TP3] Scheduler hit")[0] + caught + "\n"
    silent = diagnose([f"{log}The server is fired up and ready to roll!\n".encode()], shipped_rules())
    assert (silent.cause, silent.rule) == ("slow_fallback", "flashinfer/fusion-off")
    dead = diagnose([f"{log}torch.OutOfMemoryError: CUDA out of memory.\n".encode()], shipped_rules())
    assert dead.rule == "cuda/oom"
