from itertools import islice, pairwise

import pytest

from knowngood.loads.arrivals import arrivals


def test_constant_arrivals_are_exact_multiples() -> None:
    assert list(islice(arrivals(4.0, "constant", seed=1), 5)) == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_constant_arrivals_do_not_drift() -> None:
    assert next(islice(arrivals(3.0, "constant", seed=1), 300_000, None)) == 100_000.0


def test_poisson_arrivals_are_the_same_for_both_arms_and_differ_by_seed() -> None:
    first = list(islice(arrivals(10.0, "poisson", seed=7), 50))
    assert first == list(islice(arrivals(10.0, "poisson", seed=7), 50))
    assert first != list(islice(arrivals(10.0, "poisson", seed=8), 50))
    assert first[0] == 0.0


def test_poisson_gaps_are_exponential() -> None:
    gaps = [b - a for a, b in pairwise(islice(arrivals(10.0, "poisson", seed=3), 20_001))]
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    assert mean == pytest.approx(0.1, rel=0.03)
    assert variance == pytest.approx(0.01, rel=0.1)
    assert all(gap >= 0 for gap in gaps)
