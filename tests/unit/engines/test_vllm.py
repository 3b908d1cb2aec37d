"""On what vLLM 0.32.0 itself wrote (CPU, a random Llama, n-gram speculation; thinned to the lines that are read)."""

from pathlib import Path

import pytest

from knowngood.engines.vllm import VLLM
from knowngood.model.change import Change, Env, Flag
from knowngood.ports import Inside, Observed

RECORDED = Path(__file__).parent / "recorded"
LOG = (RECORDED / "vllm-0.32.0.log").read_text()
PAGES = {"/version": '{"version":"0.32.0"}', "/metrics": (RECORDED / "vllm-0.32.0.metrics").read_text()}
NGRAM = '{"method":"ngram","num_speculative_tokens":4,"prompt_lookup_max":4,"prompt_lookup_min":2}'


def prove(change: Change, *argv: str) -> tuple[bool | None, str]:
    inside = Inside(argv=("vllm", *argv), environ={"VLLM_NO_SUCH_THING": "1"}, pids=(7,), ports=(), rss_mb=1)
    proof = VLLM().prove(change, Observed(inside=inside, pages=PAGES, log=LOG, files={}))
    return proof.holds, proof.evidence


@pytest.mark.parametrize(
    ("flag", "value", "expected"),
    [
        ("--max-model-len", "1024", True),
        ("--max-model-len", "2048", False),
        ("--block-size", "32", True),
        ("--block-size", "16", False),
        ("--max-num-seqs", "8", True),
        ("--max-num-seqs", "4", False),
        ("--enforce-eager", None, True),
        ("--dtype", "auto", True),
        ("--dtype", "float32", False),
        ("-tp", "1", True),
        ("-tp", "2", False),
        ("--enable-prefix-caching", None, True),
        ("--no-enable-prefix-caching", None, False),
        ("--disable-custom-all-reduce", None, True),
        ("--speculative-config", NGRAM, True),
        ("--speculative-config", '{"method":"eagle3","model":"x"}', False),
        ("--seed", "0", True),
        ("--nothing-is-said-of-this", "x", True),
    ],
)
def test_a_flag_is_what_the_engine_resolved_it_to(flag: str, value: str | None, *, expected: bool) -> None:
    words = (flag,) if value is None else (flag, value)
    assert prove(Flag(flag=flag, value=value), *words)[0] is expected


def test_the_evidence_says_where() -> None:
    assert prove(Flag(flag="--block-size", value="32"), "--block-size", "32")[1] == (
        "/metrics cache_config_info says block_size is 32"
    )


def test_a_variable_that_it_does_not_know_is_not_in_force() -> None:
    assert prove(Env(name="VLLM_NO_SUCH_THING", value="1")) == (
        False,
        "the log says: Unknown vLLM environment variable detected: VLLM_NO_SUCH_THING",
    )


def test_it_says_its_version_and_its_acceptance() -> None:
    assert VLLM().version(PAGES, "") == "0.32.0"
    assert VLLM().version({}, LOG) == "0.32.0"
    # 11 drafts, 37 of 37 tokens accepted.
    assert VLLM().acceptance_length(PAGES, LOG) == pytest.approx(1 + 37 / 11)
