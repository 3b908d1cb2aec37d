import numpy as np
import pytest

from knowngood.reason.decide import Rule, Trials, compare
from knowngood.reason.judge import Judge
from knowngood.reason.profile import PROFILES, boundary

SCALE = np.array([0.035])
NOISE = (0.031, -0.044, 0.012, -0.027, 0.058, -0.009, 0.022, -0.036)
LEDGER = [(-400.0 * age, 100.0) for age in range(1, 6)]
SLOT_S = 180.0


def trials_after(*launches: float) -> tuple[Trials, bool, bool]:
    rule = Rule(profile=PROFILES["standard"], worthwhile=float(np.log1p(0.02)), freedom=8)
    trials = Trials(rule, SCALE)
    keep, stop = False, False
    for launch, value in enumerate(launches):
        look = trials.add(np.array([value]), at=SLOT_S * launch)
        keep, stop = bool(look.keep[0]), bool(look.stop[0])
    return trials, keep, stop


def test_pair_far_from_the_median_pair_is_pulled_in() -> None:
    calm = compare(np.array([[0.05, 0.06, 0.05]]), scale=SCALE, freedom=8)
    wild = compare(np.array([[0.05, 0.90, 0.05]]), scale=SCALE, freedom=8)
    assert wild.mean[0] == pytest.approx(0.05 + 0.105 / 3)
    assert wild.mean[0] - calm.mean[0] < 0.035


def test_variance_is_pooled_with_history() -> None:
    one = compare(np.array([[0.05, 0.06]]), scale=SCALE, freedom=8)
    assert one.var[0] == pytest.approx((8 * 0.035**2 + 0.01**2 / 2) / 9)
    assert one.freedom == 9


def test_variance_of_a_noisier_candidate_is_its_own() -> None:
    noisy = compare(np.array([[-0.08, 0.09, -0.05, 0.09]]), scale=SCALE, freedom=8)
    assert noisy.var[0] == pytest.approx(np.var([-0.08, 0.09, -0.05, 0.09], ddof=1))


def test_bad_run_of_a_large_winner_does_not_delay_its_keep() -> None:
    # The candidate's first launch lost 20 %: pairs of +40 % and +20 % scatter far more than the machine does.
    _, keep, _ = trials_after(0.18, 0.0, 0.0, 0.41)
    assert keep


def test_large_scatter_around_nothing_is_not_kept() -> None:
    _, keep, _ = trials_after(0.30, 0.0, 0.0, 0.02)
    assert not keep


def test_bad_run_of_a_winner_is_seen_although_it_beats_the_baseline() -> None:
    judge = Judge(noise=NOISE, ledger=LEDGER)
    for arm, value in (("candidate", 150.0), ("baseline", 100.0), ("baseline", 101.0)):
        judge.add(arm="candidate" if arm == "candidate" else "baseline", value=value, at=0.0)
    judge.add(arm="candidate", value=120.0, at=540.0)
    assert judge.same_launch


def test_ledger_has_no_say_in_the_report_once_there_is_a_pair() -> None:
    stepped = [(at, value * 1.03) for at, value in LEDGER]
    effects: list[tuple[float, float, float] | tuple[None, None, None]] = []
    for ledger in (stepped, []):
        judge = Judge(noise=NOISE, ledger=ledger, half_pair_counts=False)
        judge.add(arm="candidate", value=100.0, at=0.0, verified=True)
        judge.add(arm="baseline", value=101.0, at=SLOT_S, verified=True)
        effects.append(judge.effect)
    assert effects[0] == pytest.approx(effects[1])


def test_report_without_a_pair_allows_for_a_machine_that_stepped() -> None:
    judge = Judge(noise=NOISE, ledger=LEDGER)
    judge.add(arm="candidate", value=93.0, at=0.0, verified=True)
    assert judge.verdict is not None
    assert judge.verdict.pairs == 0
    assert judge.verdict.reason != "regression"
    assert judge.verdict.high is not None
    assert judge.verdict.high > 0


@pytest.mark.parametrize("pairs", [6, 12, 24])
@pytest.mark.parametrize("alpha", [0.01, 0.05])
def test_boundary_falls_with_every_pair_and_with_history(pairs: int, alpha: float) -> None:
    bars = [boundary(pair, pairs=pairs, alpha=alpha, freedom=8) for pair in range(1, pairs + 1)]
    assert bars == sorted(bars, reverse=True)
    last = [boundary(pairs, pairs=pairs, alpha=alpha, freedom=freedom) for freedom in range(9)]
    assert last == sorted(last, reverse=True)
