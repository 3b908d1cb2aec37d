import numpy as np
import pytest

from knowngood.reason.prior import chance_above, shrink
from knowngood.reason.track import DRIFT_S, DRIFT_SD, KNOWN, Floats, Track

SCALE = 0.04


def least_squares(at: Floats, arm: Floats, values: Floats) -> tuple[float, float]:
    """The textbook's way: the whole covariance, inverted."""
    cov = DRIFT_SD**2 * np.exp(-np.abs(at[:, None] - at) / DRIFT_S) + SCALE**2 / 2 * np.eye(len(at))
    design = np.column_stack([np.ones(len(at)), arm])
    weights = np.linalg.inv(cov)
    var = np.linalg.inv(design.T @ weights @ design)
    return float((var @ design.T @ weights @ values)[1]), float(var[1, 1])


def test_track_is_generalised_least_squares() -> None:
    rng = np.random.default_rng(2)
    at = np.cumsum(rng.uniform(60, 900, 14))
    arm = np.array([0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0], dtype=float)
    values = 4 + 0.1 * arm + rng.normal(0, 0.02, 14)
    track = Track(np.array([SCALE]))
    for i, value in enumerate(values):
        track.observe(np.array([value]), candidate=bool(arm[i]), at=float(at[i]))
    effect, var = least_squares(at, arm, values)
    assert track.effect[0] == pytest.approx(effect, abs=1e-5)
    assert track.effect_var[0] == pytest.approx(var, rel=1e-4)


def test_effect_is_unknown_until_both_arms_were_seen() -> None:
    track = Track(np.array([SCALE]))
    track.observe(np.array([1.0]), candidate=False, at=0.0)
    assert track.effect_var[0] >= KNOWN
    track.observe(np.array([1.1]), candidate=True, at=180.0)
    assert track.effect_var[0] < KNOWN
    assert track.effect[0] == pytest.approx(0.1, abs=1e-3)


def test_one_wild_launch_does_not_move_the_level_far() -> None:
    track = Track(np.array([SCALE]))
    for launch, value in enumerate([1.0, 1.0, 1.0, 0.2, 1.0]):
        track.observe(np.array([value]), candidate=False, at=180.0 * launch)
    track.observe(np.array([1.0]), candidate=True, at=900.0)
    assert abs(track.effect[0]) < 0.04


def test_clock_that_steps_back_does_no_harm() -> None:
    track = Track(np.array([SCALE]))
    track.observe(np.array([1.0]), candidate=False, at=100.0)
    track.observe(np.array([1.1]), candidate=True, at=0.0)
    assert track.effect[0] == pytest.approx(0.1, abs=1e-3)


def test_narrow_keeps_the_rest_as_it_was() -> None:
    track = Track(np.array([SCALE, SCALE, SCALE]))
    track.observe(np.array([1.0, 2.0, 3.0]), candidate=False, at=0.0)
    track.narrow(np.array([2, 0]))
    track.observe(np.array([3.1, 1.2]), candidate=True, at=180.0)
    assert track.effect == pytest.approx([0.1, 0.2], abs=1e-3)


def test_small_effects_are_shrunk_and_large_ones_are_left_alone() -> None:
    var = np.full(3, 0.03**2)
    small, none, large = shrink(np.array([0.04, 0.0, 0.4]), var)
    assert 0.02 < small < 0.03
    assert none == 0
    assert large == pytest.approx(0.4, rel=0.01)


def test_chance_is_what_the_mixture_says() -> None:
    rng = np.random.default_rng(0)
    effect, var, noise_var = 0.03, 0.02**2, 0.01**2
    # Posterior by weighing draws from the prior.
    spread = np.where(rng.random(400_000) < 0.8, 0.05, 0.5)
    truth = spread * rng.standard_normal(len(spread))
    weight = np.exp(-0.5 * (effect - truth) ** 2 / var)
    end = 0.01 + 0.5 * (truth + np.sqrt(noise_var) * rng.standard_normal(len(truth)))
    expected = weight[end > 0.03].sum() / weight.sum()
    chance = chance_above(
        np.array([0.03]),
        effect=np.array([effect]),
        var=np.array([var]),
        done=0.01,
        share_left=0.5,
        noise_var=np.array([noise_var]),
    )
    assert chance[0] == pytest.approx(expected, abs=0.01)
    assert shrink(np.array([effect]), np.array([var]))[0] == pytest.approx(
        (weight * truth).sum() / weight.sum(), abs=1e-3
    )
