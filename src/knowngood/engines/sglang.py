"""SGLang: ``python -m sglang.launch_server`` or ``sglang serve``."""

import re
from collections.abc import Mapping, Sequence
from statistics import fmean

import msgspec

from knowngood.engines.decode import decode
from knowngood.engines.fields import read_fields
from knowngood.engines.server import ResolvingServer
from knowngood.engines.signs import Feature
from knowngood.ports import Observed, Readiness

GROUPS = (
    # Canonical spelling first.
    ("--model-path", "--model"),
    ("--tensor-parallel-size", "--tp-size", "--tp"),
    ("--pipeline-parallel-size", "--pp-size", "--pp"),
    ("--data-parallel-size", "--dp-size", "--dp"),
    ("--expert-parallel-size", "--ep-size", "--ep"),
    ("--attention-context-parallel-size", "--attn-cp-size"),
    ("--moe-data-parallel-size", "--moe-dp-size"),
    ("--speculative-draft-model-path", "--speculative-draft-model"),
    ("--dist-init-addr", "--nccl-init-addr"),
)
ALIASES = {name: group[0] for group in GROUPS for name in group[1:]}

DESTS = {
    "--tensor-parallel-size": "tp_size",
    "--pipeline-parallel-size": "pp_size",
    "--data-parallel-size": "dp_size",
    "--expert-parallel-size": "ep_size",
    "--attention-context-parallel-size": "attn_cp_size",
    "--moe-data-parallel-size": "moe_dp_size",
    "--fp8-gemm-backend": "fp8_gemm_runner_backend",
    "--fp4-gemm-backend": "fp4_gemm_runner_backend",
}

FEATURES = (
    Feature(
        names=("--enable-flashinfer-allreduce-fusion", "--flashinfer-allreduce-fusion-backend"),
        on=r"FlashInfer (?:AllReduce Fusion enabled and )?workspace initialized",
        off=r"Failed to initialize FlashInfer workspace|Disabling flashinfer allreduce fusion permanently"
        r"|llreduce fusion is forcibly disabled",
    ),
    Feature(
        names=("SGLANG_ENABLE_PCIE_IPC_ALLREDUCE",),
        on=r"PCIe-IPC all-reduce enabled",
        off=r"PCIe-IPC.*(?:failed|reductions stay on NCCL)",
    ),
    Feature(names=("--enable-torch-symm-mem",), off=r"Device capability .* not supported"),
    Feature(names=("--enable-mixed-chunk",), off=r"[Mm]ixed chunk(?:ed prefill)? is disabled"),
)

SERVER_ARGS = re.compile(r"server_args=ServerArgs\(")
ACCEPTED = re.compile(r"accept len: ([0-9.]+)")


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One data-parallel rank in ``/server_info``; the length stands there where it has speculated."""

    avg_spec_accept_length: float = 0.0


class ServerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """``/server_info``, beside the arguments."""

    version: str = ""
    internal_states: tuple[State, ...] = ()


class SGLang(ResolvingServer):
    """SGLang: flags, readiness and effect proofs."""

    name = "sglang"
    layers = ("sglang", "flashinfer", "triton", "nccl", "cuda", "hub", "os", "python")
    aliases: Mapping[str, str] = ALIASES
    dests: Mapping[str, str] = DESTS
    rewritten: Mapping[str, str] = {"NEXTN": "EAGLE"}
    features: Sequence[Feature] = FEATURES
    workers = r"^sglang::scheduler"
    pages: Sequence[str] = ("/server_info", "/get_server_info", "/model_info", "/v1/models", "/metrics")
    readiness: Readiness | None = Readiness(
        health="/health",
        first_answer="/v1/completions",
        stages=(
            r"Init torch distributed begin",
            r"Load weight begin",
            r"Load weight end",
            r"KV Cache is allocated",
            r"Capture (?:draft |draft extend )?cuda graph begin",
            r"Capture (?:draft |draft extend )?cuda graph end",
            r"Uvicorn running on",
            r"The server is fired up and ready to roll",
        ),
        hopeless=r"Received sigquit from a child process|Scheduler hit an exception|"
        r"scheduler (?:is dead|died)|Initialization failed\. warmup error",
    )

    def configurations(self, observed: Observed) -> Sequence[tuple[str, Mapping[str, str]]]:
        """``/server_info`` (before 0.5.6 ``/get_server_info``), then the line that it logs as it starts."""
        line = SERVER_ARGS.search(observed.log)
        logged = read_fields(observed.log[line.end() :].partition("\n")[0]) if line else {}
        info = decode(info_page(observed.pages), dict[str, object]) or {}
        shown = {name: repr(value) for name, value in info.items() if not isinstance(value, dict | list)}
        return (("/server_info", shown), ("server_args in the log", logged))

    def version(self, pages: Mapping[str, str], log: str) -> str:
        """From ``/server_info``."""
        del log
        return (decode(info_page(pages), ServerInfo) or ServerInfo()).version

    def acceptance_length(self, pages: Mapping[str, str], log: str) -> float | None:
        """``avg_spec_accept_length`` of ``/server_info``, else the mean of ``accept len`` in the log.

        Both count the token that is always right, in all versions since 0.4.
        """
        states = (decode(info_page(pages), ServerInfo) or ServerInfo()).internal_states
        lengths = [one.avg_spec_accept_length for one in states if one.avg_spec_accept_length] or [
            float(one) for one in ACCEPTED.findall(log)
        ]
        return fmean(lengths) if lengths else None


def info_page(pages: Mapping[str, str]) -> str:
    """The page that says what the server resolved its arguments to; empty if it did not answer."""
    return pages.get("/server_info", "") or pages.get("/get_server_info", "")
