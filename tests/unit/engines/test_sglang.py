"""On a page that SGLang 0.5.23 gave on a CPU, and on lines as the source of 0.5.9 and 0.5.23 words them."""

import json
from pathlib import Path

import pytest

from knowngood.engines.sglang import SGLang
from knowngood.engines.trtllm import TRTLLM
from knowngood.model.change import Flag
from knowngood.ports import Inside, Observed

ARGS = (
    "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='/m', tp_size=8, mem_fraction_static=0.7, "
    "speculative_algorithm='EAGLE', enable_flashinfer_allreduce_fusion=True, disable_cuda_graph=False)\n"
)
FUSED_9 = "[2026-01-01 00:01:00 TP0] FlashInfer workspace initialized for rank 0, world_size 8, backend trtllm\n"
FUSED_23 = (
    "[2026-01-01 00:01:00 TP0] FlashInfer AllReduce Fusion enabled and workspace initialized: backend=trtllm, rank=0\n"
)
REFUSED = (
    "[2026-01-01 00:01:00 TP0] Failed to initialize FlashInfer workspace (backend=trtllm): No supported CUDA "
    "architectures found for major versions [9, 10].. Disabling flashinfer allreduce fusion permanently.\n"
)


def holds(flag: str, value: str | None, log: str, info: dict[str, object] | None = None) -> bool | None:
    argv = ("sglang", flag) if value is None else ("sglang", flag, value)
    pages = {} if info is None else {"/server_info": json.dumps(info)}
    inside = Inside(argv=argv, environ={"A": ""}, pids=(7,), ports=(), rss_mb=1)
    return SGLang().prove(Flag(flag=flag, value=value), Observed(inside=inside, pages=pages, log=log, files={})).holds


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--tp", "8", True),
        ("--tensor-parallel-size", "4", False),
        ("--mem-fraction-static", "0.70", True),
        ("--mem-fraction-static", "0.9", False),
        ("--speculative-algorithm", "NEXTN", True),
        ("--disable-cuda-graph", None, False),
    ],
)
def test_a_flag_is_what_the_server_resolved_it_to(flag: str, value: str | None, *, expected: bool) -> None:
    assert holds(flag, value, ARGS) is expected


def test_its_page_is_believed_before_its_log() -> None:
    assert holds("--tp", "8", ARGS, {"tp_size": 4}) is False


@pytest.mark.parametrize(
    ("line", "expected"), [("", False), (FUSED_9, True), (FUSED_23, True), (REFUSED, False), (FUSED_9 + REFUSED, False)]
)
def test_the_fusion_flag_alone_proves_nothing(line: str, *, expected: bool) -> None:
    assert holds("--enable-flashinfer-allreduce-fusion", None, ARGS + line) is expected


def test_acceptance_length_is_taken_from_the_page_or_the_log() -> None:
    page = {"/server_info": json.dumps({"version": "0.5.9", "internal_states": [{"avg_spec_accept_length": 2.5}]})}
    log = "Decode batch, #running-req: 1, accept len: 2.00, accept rate: 0.50\naccept len: 3.00, accept rate: 0.75\n"
    assert SGLang().acceptance_length(page, log) == 2.5
    assert SGLang().acceptance_length({}, log) == 2.5
    assert SGLang().version(page, "") == "0.5.9"


def test_trtllm_weighs_iterations_by_their_requests() -> None:
    stats = [
        {"iter": 1, "specDecodingStats": {"acceptanceLength": 2.0, "numRequestsWithDraftTokens": 3}},
        {"iter": 2, "specDecodingStats": {"acceptanceLength": 4.0, "numRequestsWithDraftTokens": 1}},
        {"iter": 3, "specDecodingStats": None},
    ]
    assert TRTLLM().acceptance_length({"/metrics": json.dumps(stats)}, "") == 2.5
    assert TRTLLM().version({}, "[TensorRT-LLM] TensorRT LLM version: 1.2.0rc2\n") == "1.2.0rc2"


RECORDED = Path(__file__).parent / "recorded" / "sglang-0.5.23.server_info"


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--max-running-requests", "8", True),
        ("--max-running-requests", "9", False),
        ("--attention-backend", "torch_native", True),
        ("--disable-overlap-schedule", None, True),
        ("--device", "cuda", False),
    ],
)
def test_on_the_page_that_it_gave_on_a_cpu(flag: str, value: str | None, *, expected: bool) -> None:
    page = RECORDED.read_text()
    assert holds(flag, value, "", json.loads(page)) is expected
    assert SGLang().version({"/server_info": page}, "") == "0.5.23"
    assert SGLang().acceptance_length({"/server_info": page}, "") is None
