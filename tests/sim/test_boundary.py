"""The boundary's constants, computed anew from the pivot they come from."""

import numpy as np
import pytest
from scipy.special import ndtri, stdtr

from knowngood.reason.profile import boundary
from knowngood.reason.track import Floats

pytestmark = pytest.mark.sim

TRIALS = 200_000


def largest_scores(pairs: int, freedom: int) -> Floats:
    """Largest score of each null trial, scaled so that the boundary is one constant."""
    rng = np.random.default_rng(pairs + freedom)
    draws = rng.standard_normal((TRIALS, pairs))
    history = rng.chisquare(freedom, TRIALS) if freedom else np.zeros(TRIALS)
    largest = np.full(TRIALS, -np.inf)
    for n in range(2, pairs + 1):
        mean = draws[:, :n].mean(axis=1)
        square_sum = ((draws[:, :n] - mean[:, None]) ** 2).sum(axis=1)
        known = freedom + n - 1
        t = mean * np.sqrt(n * known / (history + square_sum))
        near = np.flatnonzero(t > 1)
        tail = np.asarray(stdtr(known, -t[near]), dtype=np.float64)
        score = np.asarray(-ndtri(tail), dtype=np.float64) * (n / pairs) ** 0.1
        largest[near] = np.maximum(largest[near], score)
    return largest


@pytest.mark.parametrize("freedom", [0, 3, 8])
@pytest.mark.parametrize("pairs", [6, 12, 24])
def test_constants_are_quantiles_of_the_null_trials(pairs: int, freedom: int) -> None:
    scores = largest_scores(pairs, freedom)
    for alpha, tolerance in ((0.01, 0.04), (0.05, 0.02)):
        constant = boundary(pairs, pairs=pairs, alpha=alpha, freedom=freedom)
        assert np.quantile(scores, 1 - alpha) == pytest.approx(constant, abs=tolerance)
