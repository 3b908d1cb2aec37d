"""NCCL's own log says what it made of its variables. Lines as in public logs of NCCL 2.21 to 2.30."""

import pytest

from knowngood.engines.vllm import VLLM
from knowngood.model.change import Env
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Inside, Observed

LOG = """\
node:1801:1801 [6] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>
node:1801:1801 [6] NCCL INFO NCCL_ALGO set by environment to ring,tree
node:1801:1801 [6] NCCL INFO NCCL_PROTO set by environment to LL
node:1801:1801 [6] NCCL INFO NCCL_MAX_NCHANNELS set by environment to 4.
node:1801:1801 [6] NCCL INFO NCCL_P2P_DISABLE set by environment to 1
node:1801:1801 [6] NCCL INFO NCCL_P2P_LEVEL set by environment to SYS
node:1801:1801 [6] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct
node:1801:1801 [6] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via SHM/direct/direct
node:1801:1801 [6] NCCL INFO AllReduce: 43008 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..0}
"""
SIMPLE = (
    LOG + "node:1801:1801 [6] NCCL INFO AllReduce: 8388608 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..3}\n"
)
P2P = LOG + "node:1801:1801 [6] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"


def prove(name: str, value: str, log: str, **environ: str) -> tuple[bool | None, str]:
    environ = {name: value, "NCCL_DEBUG": "INFO", **environ}
    inside = Inside(argv=("vllm",), environ=environ, pids=(7,), ports=(), rss_mb=1)
    proof = VLLM().prove(Env(name=name, value=value), Observed(inside=inside, pages={}, log=log, files={}))
    return proof.holds, proof.evidence


@pytest.mark.parametrize(
    ("name", "value", "log", "expected"),
    [
        ("NCCL_ALGO", "ring,tree", LOG, True),
        ("NCCL_PROTO", "LL", LOG, True),
        ("NCCL_PROTO", "LL", SIMPLE, False),
        ("NCCL_PROTO", "Simple", LOG, False),
        ("NCCL_MAX_NCHANNELS", "4", LOG, True),
        ("NCCL_MAX_NCHANNELS", "8", LOG, False),
        ("NCCL_MAX_NCHANELS", "4", LOG, False),
        ("NCCL_P2P_DISABLE", "1", LOG, True),
        ("NCCL_P2P_DISABLE", "1", P2P, False),
        ("NCCL_P2P_LEVEL", "SYS", P2P, True),
        ("NCCL_P2P_LEVEL", "SYS", "no line of NCCL's\n", False),
    ],
)
def test_a_variable_is_what_nccl_says(name: str, value: str, log: str, *, expected: bool) -> None:
    assert prove(name, value, log)[0] is expected


def test_the_choice_is_part_of_the_evidence() -> None:
    assert prove("NCCL_PROTO", "LL", LOG)[1] == (
        "NCCL says NCCL_PROTO set by environment to LL; 2 channels via SHM, all-reduce of 43008 bytes by RING LL"
    )


def test_without_its_log_the_environment_is_the_evidence() -> None:
    assert prove("NCCL_PROTO", "LL", "", NCCL_DEBUG="WARN") == (True, "NCCL_PROTO=LL in the environment of process 7")
    assert prove("NCCL_PROTO", "LL", "", NCCL_DEBUG_FILE="/tmp/%p")[0] is True  # noqa: S108 - never written
    assert prove("NCCL_DEBUG", "INFO", "")[0] is True


def resolved(**env: str) -> dict[str, str]:
    return VLLM().resolve(LaunchSpec(argv=("vllm",), env=env), which=lambda name: name).env


def test_its_log_is_switched_on_for_launches_that_tune_it() -> None:
    assert resolved(NCCL_PROTO="LL")["NCCL_DEBUG"] == "INFO"
    assert "TUNING" not in resolved(NCCL_PROTO="LL")["NCCL_DEBUG_SUBSYS"]
    assert resolved(NCCL_PROTO="LL", NCCL_DEBUG="WARN")["NCCL_DEBUG"] == "WARN"
    assert "NCCL_DEBUG" not in resolved(CUDA_VISIBLE_DEVICES="0")
