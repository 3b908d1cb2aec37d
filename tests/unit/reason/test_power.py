import pytest

from knowngood.reason.noise import Noise
from knowngood.reason.power import mde, price
from knowngood.reason.profile import PROFILES

TYPICAL = Noise(scale=0.036, freedom=8)


def test_mde_shrinks_with_pairs_and_grows_with_noise() -> None:
    found = {name: mde(profile, TYPICAL, 0.02) for name, profile in PROFILES.items()}
    assert found["thorough"] < found["standard"] < found["quick"]
    assert found["explore"] < found["quick"]
    assert mde(PROFILES["standard"], Noise(scale=0.018, freedom=8), 0.02) < found["standard"] / 1.7


def test_mde_without_noise_is_a_quarter_of_what_is_worthwhile() -> None:
    assert mde(PROFILES["standard"], Noise(scale=0.0, freedom=8), 0.02) == pytest.approx(0.005, abs=1e-4)


def test_price_of_a_null_change_is_a_fraction_of_the_worst_case() -> None:
    cost = price(PROFILES["quick"], TYPICAL, 0.02, launch_s=120, run_s=60)
    assert cost.most_launches == 12
    assert cost.most_minutes == pytest.approx(36)
    assert 1 <= cost.launches < 4
    assert cost.minutes == pytest.approx(cost.launches * 3, rel=0.1)
    assert cost.mde == mde(PROFILES["quick"], TYPICAL, 0.02)


def test_price_is_the_same_each_time() -> None:
    assert price(PROFILES["quick"], TYPICAL, 0.02, launch_s=9, run_s=6) == price(
        PROFILES["quick"], TYPICAL, 0.02, launch_s=9, run_s=6
    )
