import math

import pytest

from knowngood.errors import UsageError
from knowngood.reason.noise import (
    SMALLEST_SCALE,
    UNKNOWN_SCALE,
    noise_floor,
    noise_from_launches,
)


def test_scale_is_the_root_mean_square_about_zero() -> None:
    floor = noise_floor([0.02, -0.02, 0.02, 0.02])
    assert floor.scale == pytest.approx(1.02 * 0.02)
    assert floor.freedom == 3


def test_single_outlier_is_pulled_in() -> None:
    calm = [0.02, -0.02, 0.025, -0.015, 0.02, -0.02, 0.025, -0.015]
    assert noise_floor([*calm, 0.9]).scale < 2 * noise_floor(calm).scale


def test_without_history_the_spread_is_assumed_and_has_no_freedom() -> None:
    floor = noise_floor([])
    assert floor.scale == pytest.approx(1.02 * UNKNOWN_SCALE)
    assert floor.freedom == 0


def test_short_history_is_filled_up_with_the_assumption() -> None:
    floor = noise_floor([0.0, 0.0])
    assert floor.scale == pytest.approx(1.02 * UNKNOWN_SCALE / math.sqrt(2))
    assert floor.freedom == 1


def test_freedom_is_capped() -> None:
    assert noise_floor([0.01] * 100).freedom == 8


def test_equal_numbers_do_not_make_a_perfect_machine() -> None:
    assert noise_floor([0.0] * 8).scale == SMALLEST_SCALE


def test_infinite_difference_is_refused() -> None:
    with pytest.raises(UsageError, match="not a finite number"):
        noise_floor([0.0, math.inf])


def test_launches_are_paired_in_order() -> None:
    assert noise_from_launches([110, 100, 90, 100, 7]) == pytest.approx((math.log(1.1), math.log(0.9)))


def test_failed_launch_is_no_noise() -> None:
    with pytest.raises(UsageError, match="value 0, which is not above 0"):
        noise_from_launches([100, 0])
