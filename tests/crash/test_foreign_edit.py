"""Compare-and-swap: no edit of somebody else is ever overwritten, whenever it happens."""

from pathlib import Path

import pytest
from tests.crash.enumerate_faults import Tally
from tests.crash.enumerate_foreign import STYLES, foreign
from tests.crash.scene import TARGETS, Scene, load_agent


@pytest.mark.parametrize("request_name", ["apply", "revert"])
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("style", STYLES)
def test_somebody_else_edits_at_every_change(room: Path, style: str, target: str, request_name: str) -> None:
    tally = Tally()
    assert list(foreign(Scene(room, load_agent()), request_name, style, target, tally)) == []
    assert tally.states > 0
