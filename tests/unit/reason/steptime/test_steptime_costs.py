"""Costs and floors against numbers that others published, and against brute force."""

import random

import pytest

from knowngood.model.steptime import HardwareFacts, ModelFacts
from knowngood.reason.steptime.collectives import (
    allreduce,
    choice,
    message_bytes,
    options,
    per_step,
    tokens_in,
)
from knowngood.reason.steptime.floors import (
    compute_floor_ms,
    distinct_experts,
    floor_ms,
    memory_floor_ms,
    params_used,
    speedup_bound,
)

KIMI = ModelFacts(layers=61, hidden=7168)
PCIE = HardwareFacts(gpus=8, link="pcie", link_gb_s=15)


def test_collectives_of_the_founding_case() -> None:
    assert per_step(KIMI) == 122
    assert message_bytes(KIMI, 3) == 43_008
    assert tokens_in(KIMI, 43_008) == 3


@pytest.mark.parametrize(
    ("algorithm", "protocol", "us"),
    [
        ("ring", "LL", 20.6),
        ("ring", "LL128", 49.0),
        ("ring", "Simple", 88.2),
        ("tree", "LL", 20.8),
        ("tree", "LL128", 40.6),
        ("tree", "Simple", 64.4),
    ],
)
def test_latency_of_eight_ranks_on_pcie_is_what_nccls_tuner_says(algorithm: str, protocol: str, us: float) -> None:
    cost = allreduce(0, ranks=8, link="pcie", algorithm=algorithm, protocol=protocol)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert cost.us == pytest.approx(us)


def test_bandwidth_term_of_a_ring() -> None:
    # 2 (n - 1) / n bytes a byte of message over the bus, of which LL uses half.
    cost = allreduce(1e6, ranks=8, link="pcie", algorithm="ring", protocol="LL", bus_gb_s=20)
    assert cost.transfer_us == pytest.approx(1e6 * 14 / 8 / 10e3)


def test_ll128_is_never_taken_over_pcie() -> None:
    many = HardwareFacts(gpus=8, link="pcie")
    assert all(
        cost.by_default == (cost.protocol != "LL128") for cost in options(1e5, many) if cost.algorithm != "one-shot"
    )
    assert {choice(2.0**power, many).protocol for power in range(6, 30)} == {"LL", "Simple"}  # type: ignore[union-attr]  # pyright: ignore[reportOptionalMemberAccess]
    assert all(
        cost.by_default for cost in options(1e5, HardwareFacts(gpus=8, link="nvlink")) if cost.protocol == "LL128"
    )


def test_one_shot_wins_below_its_crossover_only() -> None:
    best = [options(size, PCIE)[0].algorithm == "one-shot" for size in (8e3, 43e3, 1e6)]
    assert best[0]
    assert not best[2]


@pytest.mark.parametrize(("size", "measured"), [(1024, 7.5), (8192, 9.2), (32768, 16.5), (65536, 25.9), (262144, 73.6)])
def test_one_shot_over_pcie_switches_as_published(size: int, measured: float) -> None:
    cost = allreduce(size, ranks=8, link="pcie", algorithm="one-shot")
    assert cost.us == pytest.approx(measured, rel=0.1)


@pytest.mark.parametrize("hardware", [HardwareFacts(), HardwareFacts(gpus=1, link="pcie"), HardwareFacts(gpus=8)])
def test_nothing_is_said_of_unknown_hardware(hardware: HardwareFacts) -> None:
    assert options(1e4, hardware) == ()
    assert choice(1e4, hardware) is None


def test_distinct_experts_against_drawing() -> None:
    model = ModelFacts(experts=64, experts_per_token=6)
    rng = random.Random(1)
    drawn = [len({e for _ in range(5) for e in rng.sample(range(64), 6)}) for _ in range(3000)]
    assert distinct_experts(model, 5) == pytest.approx(sum(drawn) / len(drawn), rel=0.01)
    assert distinct_experts(model, 1) == pytest.approx(6)
    assert distinct_experts(ModelFacts(), 5) == 0


def test_floors_of_a_dense_model() -> None:
    model = ModelFacts(always_params=8e9, weight_bits=16)
    hardware = HardwareFacts(gpus=2, memory_gb_s=1000, compute_tflops=100)
    assert memory_floor_ms(model, hardware, 1) == pytest.approx(8.0)
    assert compute_floor_ms(model, hardware, 100) == pytest.approx(8.0)
    assert floor_ms(model, hardware, 1) == pytest.approx(8.0)
    assert floor_ms(model, HardwareFacts(), 1) is None
    assert params_used(ModelFacts()) is None


def test_bound_of_a_saving() -> None:
    assert speedup_bound(30, 24) == pytest.approx(5)
    assert speedup_bound(30, 15, factor=2) == pytest.approx(30 / 22.5)
    assert speedup_bound(30, 30) == float("inf")
    assert speedup_bound(30, 0) == 1
