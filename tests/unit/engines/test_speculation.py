"""Acceptance lengths out of what the engines' pages and logs look like."""

import pytest

from knowngood.engines.command import Command
from knowngood.engines.llamacpp import LlamaCpp
from knowngood.engines.openai import OpenAI
from knowngood.ports import Engine

# Out of a page and a log of llama.cpp b11549 that speculated with n-grams.
LLAMACPP = """\
# HELP llamacpp:spec_decode_num_draft_tokens_total Speculative: Total draft tokens generated
# TYPE llamacpp:spec_decode_num_draft_tokens_total counter
llamacpp:spec_decode_num_draft_tokens_total 86
# HELP llamacpp:spec_decode_num_accepted_tokens_total Speculative: Total draft tokens accepted by the target model
# TYPE llamacpp:spec_decode_num_accepted_tokens_total counter
llamacpp:spec_decode_num_accepted_tokens_total 86
# HELP llamacpp:spec_decode_num_drafts_total Speculative: Total speculative decoding verification steps
# TYPE llamacpp:spec_decode_num_drafts_total counter
llamacpp:spec_decode_num_drafts_total 6
llamacpp:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 6
"""
LLAMACPP_LOG = """\
0.01.236.899 I slot print_timing: id  0 | task 0 | draft acceptance = 1.00000 (   29 accepted /    29 generated), mean len = 15.50
0.01.789.211 I slot print_timing: id  0 | task 4 | draft acceptance = 1.00000 (   28 accepted /    28 generated), mean len = 15.00
0.02.526.363 I slot print_timing: id  0 | task 9 | draft acceptance = 1.00000 (   29 accepted /    29 generated), mean len = 15.50
"""  # noqa: E501 - as they are
VLLM = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 100.0
vllm:spec_decode_num_drafts_total{engine="1",model_name="m"} 300.0
vllm:spec_decode_num_drafts_created{engine="0",model_name="m"} 1.7e+09
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 400.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 204.0
vllm:spec_decode_num_accepted_tokens_total{engine="1",model_name="m"} 1.2e+03
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 64.0
"""
SGLANG = """\
sglang:spec_accept_rate{dp_rank="0",engine_type="unified",model_name="glm",tp_rank="0"} 0.55
sglang:spec_accept_length{dp_rank="0",engine_type="unified",model_name="glm",tp_rank="0"} 1.55
sglang:spec_accept_length{dp_rank="1",engine_type="unified",model_name="glm",tp_rank="1"} 2.45
"""
SGLANG_LOG = """\
Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 2.31, accept rate: 0.58, cuda graph: True
Prefill batch, #new-seq: 1, #new-token: 24
Decode batch, #running-req: 2, #token: 9, token usage: 0.01, accept len: 2.69, accept rate: 0.67, cuda graph: True
"""
POOR_LOG = """\
slot print_timing: id  0 | task 0 | draft acceptance = 0.75000 (   12 accepted /    16 generated), mean len =  4.00
slot print_timing: id  0 | task 1 | draft acceptance = 0.25000 (    4 accepted /    16 generated), mean len =  2.00
slot print_timing: id  1 | task 2 | draft acceptance = 0.00000 (    0 accepted /     4 generated), mean len =  1.00
"""


def length(engine: Engine, page: str = "", log: str = "") -> float | None:
    return engine.acceptance_length({"/metrics": page} if page else {}, log)


def test_counters_of_drafts_and_accepted_tokens() -> None:
    assert length(LlamaCpp(), LLAMACPP) == 1 + 86 / 6
    assert length(OpenAI(), VLLM) == 1 + 1404 / 400


def test_counters_that_stand_still_tell_nothing() -> None:
    still = LLAMACPP.replace(" 6\n", " 0\n").replace(" 86\n", " 0\n")
    assert length(LlamaCpp(), still) is None


def test_a_server_that_does_not_speculate_tells_nothing() -> None:
    assert length(OpenAI(), "vllm:num_requests_running 1.0\n", "INFO: Application startup complete.\n") is None
    assert length(OpenAI(), SGLANG.replace("1.55", "0.0").replace("2.45", "0.0")) is None


def test_sglang_tells_by_its_log_and_else_by_its_gauge() -> None:
    assert length(OpenAI(), SGLANG) == pytest.approx(2.0)
    assert length(OpenAI(), SGLANG, SGLANG_LOG) == pytest.approx(2.5)


def test_llamacpp_tells_by_its_log_without_a_page() -> None:
    assert length(LlamaCpp(), log=LLAMACPP_LOG) == pytest.approx(1 + 86 / 6)
    # Four drafts gave 12 tokens, four gave 4, one gave none.
    assert length(LlamaCpp(), log=POOR_LOG) == pytest.approx(1 + 16 / 9)


def test_a_program_tells_nothing() -> None:
    assert length(Command(), VLLM, SGLANG_LOG) is None
