"""What a race promises, on simulated machines: launches, useless keeps, and what is lost against the best candidate."""

import msgspec
import numpy as np
import pytest

from knowngood.reason.noise import Noise
from knowngood.reason.profile import PROFILES
from knowngood.reason.rehearse import NOBODY, draw_ideas, most_launches, race_many, race_price
from knowngood.reason.simulate import TYPICAL, Machine, Memory, judge_many
from knowngood.reason.track import Floats

pytestmark = pytest.mark.sim

RACES = 600
WORTHWHILE = 0.02
# The study's machine: launches differ by 2.25 %, nothing drifts, nothing goes wrong.
STEADY = Machine(launch_cv=(0.0225, 0.0225), run_cv=(0.0, 0.0), drift_sd=0.0, outliers=0.0)


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Means over races with their confirming trials; ``lost`` is what the best candidate had been worth more."""

    launches: float
    useless: float
    lost: float


def race_and_confirm(effects: Floats, machine: Machine, memory: Memory = Memory()) -> Found:  # noqa: B008  (frozen)
    raced = race_many(effects, machine=machine, memory=memory)
    won = raced.winner != NOBODY
    gains = np.where(won, effects[np.arange(len(effects)), raced.winner], 0.0)
    trials = judge_many(gains, machine=machine, profile=PROFILES["standard"], worthwhile=WORTHWHILE, seed=2)
    kept = trials.kept & won
    best = np.maximum(effects.max(axis=1), 0.0)
    return Found(
        launches=float((raced.launches + trials.launches * won).mean()),
        useless=float((kept & (gains < WORTHWHILE / 4)).mean()),
        lost=float((best - np.where(kept, gains, 0.0)).mean()),
    )


@pytest.mark.parametrize(("candidates", "launches", "lost"), [(8, 27, 0.012), (16, 38, 0.012), (32, 55, 0.009)])
@pytest.mark.parametrize("machine", [STEADY, TYPICAL, Machine()], ids=["steady", "typical", "mixed"])
def test_the_best_of_many_is_found_with_few_launches(
    candidates: int, launches: float, lost: float, machine: Machine
) -> None:
    found = race_and_confirm(draw_ideas(np.random.default_rng(1), (RACES, candidates)), machine)
    assert found.launches <= launches
    assert found.useless <= 0.005
    assert found.lost <= lost


@pytest.mark.parametrize(
    ("machine", "memory"),
    [
        (Machine(trend=0.05), Memory()),
        (Machine(trend=-0.05), Memory()),
        (Machine(bad_launches=0.02), Memory()),
        (Machine(heavy_tails=True), Memory()),
        (Machine(step=-0.03), Memory()),
        (Machine(), Memory(ledger=0)),
        (Machine(), Memory(aa_pairs=4)),
        (Machine(), Memory(aa_pairs=0)),
        (Machine(slot_s=1200.0), Memory()),
    ],
    ids=["up", "down", "bad launches", "tails", "step", "no ledger", "few A/A", "no A/A", "long launches"],
)
def test_useless_keeps_stay_rare_under_stress(machine: Machine, memory: Memory) -> None:
    effects = draw_ideas(np.random.default_rng(1), (RACES, 16))
    assert race_and_confirm(effects, machine, memory).useless <= 0.005


def test_a_field_of_nothing_is_cheap_and_hardly_ever_kept() -> None:
    found = race_and_confirm(np.zeros((RACES, 16)), Machine())
    assert found.useless <= 0.005
    assert found.launches <= 60


def test_large_effects_are_told_apart_at_once() -> None:
    effects = np.tile(np.log1p([0.0, 0.3, 0.5, 1.0]), (RACES, 1))
    raced = race_many(effects, machine=Machine())
    assert (raced.winner == 3).mean() >= 0.99
    assert raced.launches.mean() <= 6


def test_the_price_is_what_races_cost() -> None:
    noise = Noise(scale=float(np.hypot(0.02, 0.015)) * 2**0.5, freedom=8)
    cost = race_price(PROFILES["standard"], noise, WORTHWHILE, candidates=16, launch_s=120.0, run_s=60.0)
    found = race_and_confirm(draw_ideas(np.random.default_rng(3), (RACES, 16)), TYPICAL)
    assert cost.launches == pytest.approx(found.launches, rel=0.15)
    assert cost.most_launches == most_launches(16) + 24
