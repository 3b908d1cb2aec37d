"""A pin is in force if the process looks into the overlay first and its interpreter finds the version there."""

import pytest

from knowngood.engines.proofs import prove_by_process
from knowngood.model.change import Change, Pin, Setting
from knowngood.ports import Inside, Observed

OVERLAY = "/lab/.knowngood/overlays/ab/site"


def observed(path: str = OVERLAY, pids: tuple[int, ...] = (7,), **fields: object) -> Observed:
    inside = Inside(argv=("python",), environ={"PYTHONPATH": path}, pids=pids, ports=(), rss_mb=1.0)
    return Observed(inside=inside, pages={}, log="", files={}, **fields)  # type: ignore[arg-type]


def holds(change: Change, seen: Observed) -> bool | None:
    return prove_by_process(change, seen, aliases={}).holds


PIN = Pin(requirement="flashinfer-python[cu13]==0.6.17")


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (observed(overlay=OVERLAY, pins={"flashinfer-python": "0.6.17"}), True),
        (observed(f"{OVERLAY}:/else", overlay=OVERLAY, pins={"flashinfer-python": "0.6.17+cu130"}), True),
        (observed(f"/else:{OVERLAY}", overlay=OVERLAY, pins={"flashinfer-python": "0.6.17"}), False),
        (observed("", overlay=OVERLAY, pins={}), False),
        (observed(overlay=OVERLAY, pins={"flashinfer-python": "0.6.1"}), False),
        (observed(overlay=OVERLAY, pins={}), False),
        (observed(overlay=OVERLAY, pids=(), pins={"flashinfer-python": "0.6.17"}), None),
    ],
)
def test_pins(seen: Observed, *, expected: bool | None) -> None:
    assert holds(PIN, seen) is expected


def test_final_zeros_of_a_version_do_not_matter() -> None:
    assert holds(Pin(requirement="a==1"), observed(overlay=OVERLAY, pins={"a": "1.0"})) is True
    assert holds(Pin(requirement="a==1.10"), observed(overlay=OVERLAY, pins={"a": "1.1"})) is False


def test_settings() -> None:
    never = Setting(name="/sys/kernel/mm/transparent_hugepage/enabled", value="never")
    assert holds(never, observed(settings={never.name: "never"})) is True
    assert holds(never, observed(settings={never.name: "madvise"})) is False
    assert holds(never, observed()) is False
    assert holds(Setting(name="tcp", value="1\t2  3"), observed(settings={"tcp": "1 2 3"})) is True
