"""What the rule promises, on 20 000 simulated trials a row. docs/explanation/verdict.md tells the same."""

import numpy as np
import pytest

from knowngood.reason.noise import Noise
from knowngood.reason.power import mde, price
from knowngood.reason.profile import PROFILES
from knowngood.reason.simulate import TYPICAL, Lot, Machine, Memory, Outcomes, judge_many, learn_scale
from knowngood.reason.track import Floats

pytestmark = pytest.mark.sim

TRIALS = 20_000
WORTHWHILE = 0.02
MIXED = Machine()
FEW = Memory(aa_pairs=4)
NO_LEDGER = Memory(ledger=0)

STRESS = {
    "step up after the ledger": (Machine(step=0.03), Memory()),
    "step down after the ledger": (Machine(step=-0.03), Memory()),
    "trend up": (Machine(trend=0.05), Memory()),
    "trend down": (Machine(trend=-0.05), Memory()),
    "bad launches": (Machine(bad_launches=0.02), Memory()),
    "heavy tails": (Machine(heavy_tails=True), Memory()),
    "many outliers": (Machine(outliers=0.05), Memory()),
    "stale ledger": (MIXED, Memory(stale_s=7200.0)),
    "few A/A pairs": (MIXED, FEW),
    "no history": (MIXED, Memory(aa_pairs=0)),
    "no ledger": (MIXED, NO_LEDGER),
    "no drift": (Machine(drift_sd=0.0), Memory()),
    "launch CV 10 %": (Machine(launch_cv=(0.1, 0.1)), Memory()),
    "launch CV 20 %": (Machine(launch_cv=(0.2, 0.2)), Memory()),
    "launches of ten seconds": (Machine(slot_s=10.0), Memory()),
    "launches of twenty minutes": (Machine(slot_s=1200.0), Memory()),
}
NOISIER = {
    "1.5": (Machine(candidate_noise=1.5), Memory()),
    "2": (Machine(candidate_noise=2.0), Memory()),
    "2, no ledger": (Machine(candidate_noise=2.0), NO_LEDGER),
}


def try_out(
    effect: float,
    machine: Machine = MIXED,
    memory: Memory = Memory(),  # noqa: B008  (frozen)
    profile: str = "standard",
) -> Outcomes:
    effects = np.full(TRIALS, np.log1p(effect))
    return judge_many(effects, machine=machine, profile=PROFILES[profile], worthwhile=WORTHWHILE, memory=memory)


def coverage(outcomes: Outcomes, effect: float) -> float:
    truth = np.log1p(effect)
    return float(((outcomes.low <= truth) & (truth <= outcomes.high)).mean())


def test_null_change_is_hardly_ever_kept_and_is_cheap() -> None:
    outcomes = try_out(0.0)
    assert outcomes.kept.mean() <= 0.005
    assert np.median(outcomes.launches) <= 4
    assert outcomes.launches.mean() <= 5


def test_null_change_is_cheap_without_a_ledger() -> None:
    assert try_out(0.0, memory=NO_LEDGER).launches.mean() <= 6


def test_change_worth_a_quarter_is_hardly_ever_kept() -> None:
    assert try_out(WORTHWHILE / 4).kept.mean() <= 0.01


@pytest.mark.parametrize("row", STRESS)
def test_null_change_is_hardly_ever_kept_under_stress(row: str) -> None:
    assert try_out(0.0, *STRESS[row]).kept.mean() <= 0.01


@pytest.mark.parametrize("row", NOISIER)
def test_noisier_candidate_is_the_known_weakness(row: str) -> None:
    assert try_out(0.0, *NOISIER[row]).kept.mean() <= 0.02


@pytest.mark.parametrize(("profile", "limit"), [("quick", 0.005), ("thorough", 0.005), ("explore", 0.02)])
def test_other_profiles_hardly_ever_keep_a_null_change(profile: str, limit: float) -> None:
    assert try_out(0.0, profile=profile).kept.mean() <= limit


def test_regression_is_dropped_after_one_launch() -> None:
    outcomes = try_out(-0.05)
    assert not outcomes.kept.any()
    assert np.median(outcomes.launches) == 1
    assert outcomes.launches.mean() <= 1.5


@pytest.mark.parametrize(
    ("effect", "memory", "power"),
    [(0.05, Memory(), 0.80), (0.05, FEW, 0.76), (0.10, Memory(), 0.98), (0.10, FEW, 0.97)],
)
def test_power(effect: float, memory: Memory, power: float) -> None:
    outcomes = try_out(effect, TYPICAL, memory)
    assert outcomes.kept.mean() >= power
    assert outcomes.launches.max() <= 24


def test_quick_keeps_ten_percent_within_twelve_launches() -> None:
    outcomes = try_out(0.10, TYPICAL, profile="quick")
    assert outcomes.kept.mean() >= 0.95
    assert outcomes.launches.max() <= 12


@pytest.mark.parametrize("effect", [0.5, 2.0])
def test_large_effect_is_kept_within_four_launches_and_reported_in_full(effect: float) -> None:
    outcomes = try_out(effect, TYPICAL)
    assert (outcomes.kept & (outcomes.launches <= 4)).mean() >= 0.99
    assert np.median(np.expm1(outcomes.estimate)) == pytest.approx(effect, rel=0.03)


@pytest.mark.parametrize(
    ("cv", "effect", "power"), [(0.1, 0.5, 0.98), (0.1, 2.0, 0.99), (0.2, 0.5, 0.60), (0.2, 2.0, 0.99)]
)
def test_large_effect_is_found_on_very_noisy_machines(cv: float, effect: float, power: float) -> None:
    assert try_out(effect, Machine(launch_cv=(cv, cv))).kept.mean() >= power


@pytest.mark.parametrize("memory", [Memory(), FEW, NO_LEDGER])
@pytest.mark.parametrize("effect", [-0.05, 0.0, 0.02, 0.05, 0.10, 0.5])
def test_intervals_cover(effect: float, memory: Memory) -> None:
    outcomes = try_out(effect, memory=memory)
    assert coverage(outcomes, effect) >= 0.90
    assert (outcomes.low <= outcomes.estimate).all()
    assert (outcomes.estimate <= outcomes.high).all()


def test_machine_that_stepped_is_rarely_taken_for_a_regression() -> None:
    outcomes = try_out(0.0, Machine(step=-0.03))
    assert (outcomes.high < 0).mean() <= 0.10
    assert coverage(outcomes, 0.0) >= 0.90


def campaign_effects(rng: np.random.Generator) -> Floats:
    """60 % nothing, 20 % regressions, 12 % +1 to +3 %, 8 % +3 to +12 %."""
    kinds = rng.choice(4, size=2 * TRIALS, p=[0.60, 0.20, 0.12, 0.08])
    draws = [
        rng.normal(0, 0.003, len(kinds)),
        -rng.exponential(0.04, len(kinds)),
        rng.uniform(0.01, 0.03, len(kinds)),
        rng.uniform(0.03, 0.12, len(kinds)),
    ]
    return np.choose(kinds, draws)


def test_claimed_gains_add_up_to_the_truth() -> None:
    effects = campaign_effects(np.random.default_rng(4))
    outcomes = judge_many(effects, machine=MIXED, profile=PROFILES["standard"], worthwhile=WORTHWHILE)
    claimed, gained = outcomes.estimate[outcomes.kept].sum(), effects[outcomes.kept].sum()
    assert claimed == pytest.approx(gained, rel=0.10)
    assert (effects[outcomes.kept] < WORTHWHILE / 4).mean() <= 0.03


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("aa_pairs", [4, 10])
@pytest.mark.parametrize("cv", [0.005, 0.02, 0.1])
def test_mde_is_kept_with_eighty_percent(profile: str, aa_pairs: int, cv: float) -> None:
    machine, memory = Machine(launch_cv=(cv, cv), run_cv=(0.005, 0.015)), Memory(aa_pairs=aa_pairs)
    scale, freedom = learn_scale(Lot(machine, 4000, np.random.default_rng(1)), aa_pairs)
    effect = mde(PROFILES[profile], Noise(scale=float(scale.mean()), freedom=freedom), WORTHWHILE)
    effects = np.full(4000, np.log1p(effect))
    power = judge_many(effects, machine=machine, profile=PROFILES[profile], memory=memory).kept.mean()
    assert 0.68 <= power <= 0.90


@pytest.mark.parametrize("effect", [0.0, 0.10])
def test_price_is_what_trials_cost(effect: float) -> None:
    scale, freedom = learn_scale(Lot(TYPICAL, 4000, np.random.default_rng(1)), 10)
    noise = Noise(scale=float(scale.mean()), freedom=freedom)
    cost = price(PROFILES["standard"], noise, WORTHWHILE, launch_s=120.0, run_s=60.0, effect=effect)
    outcomes = try_out(effect, TYPICAL)
    minutes = (outcomes.launches.mean() * 120 + outcomes.runs.mean() * 60) / 60
    assert cost.minutes == pytest.approx(minutes, rel=0.15)
    assert outcomes.launches.max() <= cost.most_launches
