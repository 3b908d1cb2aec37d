import numpy as np
import pytest

from knowngood.reason.decide import Rule, Trials
from knowngood.reason.judge import Judge
from knowngood.reason.noise import noise_floor
from knowngood.reason.profile import PROFILES
from knowngood.reason.simulate import TYPICAL, Lot, Machine, Memory, judge_many, ledger_and_trial, play
from knowngood.reason.track import Floats

STANDARD = PROFILES["standard"]
NOISE = (0.031, -0.044, 0.012, -0.027, 0.058, -0.009, 0.022, -0.036)


def equal_effects(effect: float, count: int) -> Floats:
    return np.full(count, np.log1p(effect))


def judge_one(runs: Floats, at: Floats, ledger: list[tuple[float, float]]) -> Judge:
    judge = Judge(noise=NOISE, ledger=ledger)
    launch, run = 0, 0
    while (arm := judge.next_arm) is not None:
        judge.add(arm=arm, value=float(np.exp(runs[launch, run])), at=float(at[launch]))
        launch, run = (launch, run + 1) if judge.same_launch else (launch + 1, 0)
    return judge


@pytest.mark.parametrize("memory", [Memory(), Memory(ledger=0)])
def test_judge_and_simulation_agree_on_every_trial(memory: Memory) -> None:
    count = 60
    noise = noise_floor(NOISE)
    scale = np.full(count, noise.scale)
    lot = Lot(Machine(outliers=0.1), count, np.random.default_rng(3))
    effects = np.resize(np.log([0.9, 1.0, 1.05, 1.1, 1.5, 3.0]), count)
    ledger, runs, at = ledger_and_trial(lot, effects, STANDARD.pairs, scale, memory)
    rule = Rule(profile=STANDARD, worthwhile=float(np.log1p(0.02)), freedom=noise.freedom)
    many = play(Trials(rule, scale, ledger), runs, at)
    for i in range(count):
        verdict = judge_one(runs[i], at, [(then, float(np.exp(values[i]))) for then, values in ledger]).verdict
        assert verdict is not None
        assert (verdict.decision == "keep", verdict.launches) == (many.kept[i], many.launches[i])
        assert verdict.estimate == pytest.approx(np.expm1(many.estimate[i]), abs=1e-9)


def test_null_change_is_kept_in_at_most_one_of_a_hundred_trials() -> None:
    outcomes = judge_many(equal_effects(0.0, 1500), machine=Machine(), profile=STANDARD)
    assert outcomes.kept.mean() <= 0.01
    assert np.median(outcomes.launches) <= 4


def test_worthwhile_change_is_usually_kept() -> None:
    outcomes = judge_many(equal_effects(0.10, 500), machine=TYPICAL, profile=STANDARD)
    assert outcomes.kept.mean() >= 0.97


def test_lot_scatters_as_its_kind_says() -> None:
    kind = Machine(launch_cv=(0.03, 0.03), run_cv=(0.01, 0.01), drift_sd=0.0, outliers=0.0)
    runs = Lot(kind, 4000, np.random.default_rng(1)).measure(np.arange(4.0), np.zeros(4, dtype=bool))
    assert runs.shape == (4000, 4, 3)
    assert runs.mean(axis=2).std() == pytest.approx(np.sqrt(0.03**2 + 0.01**2 / 3), rel=0.03)
    assert (runs - runs.mean(axis=2, keepdims=True)).std(ddof=1) == pytest.approx(0.01 * np.sqrt(2 / 3), rel=0.03)
