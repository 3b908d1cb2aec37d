"""Power cuts under a file system that promises no more than POSIX: every image, recovered."""

from pathlib import Path

import pytest
from tests.crash.enumerate_cuts import cuts
from tests.crash.enumerate_faults import REQUESTS, Tally
from tests.crash.scene import Scene, load_agent


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "no-exchange"])
@pytest.mark.parametrize("request_name", REQUESTS)
def test_power_cut_anywhere(room: Path, request_name: str, *, exchange: bool) -> None:
    tally = Tally()
    assert list(cuts(Scene(room / "disk", load_agent()), request_name, tally, exchange=exchange)) == []
    assert tally.states > 2


@pytest.mark.parametrize("request_name", REQUESTS)
def test_the_stored_pre_images_are_only_the_second_line_of_defence(room: Path, request_name: str) -> None:
    scene = Scene(room / "disk", load_agent())
    assert list(cuts(scene, request_name, Tally(), cap=16, without_pre_images=True)) == []
