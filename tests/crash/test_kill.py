"""kill -9 at every change of every request, torn writes included, and at every change of the recovery after it."""

from pathlib import Path

import pytest
from tests.crash.enumerate_faults import REQUESTS, Tally, errors, kills
from tests.crash.faults import fail_once, fill_up, kill, kill_torn
from tests.crash.scene import Scene, load_agent


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "no-exchange"])
@pytest.mark.parametrize("request_name", REQUESTS)
def test_killed_anywhere_and_killed_again_in_recovery(room: Path, request_name: str, *, exchange: bool) -> None:
    tally = Tally()
    wrong = list(kills(Scene(room, load_agent()), request_name, kill, tally, exchange=exchange, twice=True))
    assert wrong == []
    assert tally.states > 20


@pytest.mark.parametrize("request_name", REQUESTS)
def test_killed_in_the_middle_of_a_write(room: Path, request_name: str) -> None:
    tally = Tally()
    assert list(kills(Scene(room, load_agent()), request_name, kill_torn, tally)) == []


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "no-exchange"])
@pytest.mark.parametrize("request_name", REQUESTS)
@pytest.mark.parametrize("fault", [fail_once, fill_up])
def test_an_error_anywhere(room: Path, fault: object, request_name: str, *, exchange: bool) -> None:
    chosen = fail_once if fault is fail_once else fill_up
    assert list(errors(Scene(room, load_agent()), request_name, chosen, Tally(), exchange=exchange)) == []


def test_a_kill_between_two_swaps_is_seen_as_mixed_before_recovery(room: Path) -> None:
    tally = Tally()
    assert list(kills(Scene(room, load_agent()), "apply", kill, tally)) == []
    assert tally.mixed > 0
