"""A variable must be where the work is done: servers overwrite some, and deal others out."""

import pytest

from knowngood.engines.environment import prove_env
from knowngood.model.change import Env
from knowngood.model.process import LiveProcess
from knowngood.ports import Inside, Observed

WORKERS = r"^sglang::scheduler"


def observe(leader: dict[str, str], **others: dict[str, str]) -> Observed:
    processes = [LiveProcess(pid=1, title="python", environ=leader)]
    processes += [
        LiveProcess(pid=2 + at, parent=1, title=title.replace("__", "::"), environ=environ)
        for at, (title, environ) in enumerate(others.items())
    ]
    inside = Inside(
        argv=("python",),
        environ=leader,
        pids=tuple(one.pid for one in processes),
        ports=(),
        rss_mb=1,
        processes=tuple(processes),
    )
    return Observed(inside=inside, pages={}, log="", files={})


def holds(change: Env, seen: Observed) -> bool | None:
    return prove_env(change, seen, workers=WORKERS)[0]


def test_what_a_worker_has_instead_is_told() -> None:
    change = Env(name="CUDA_DEVICE_MAX_CONNECTIONS", value="1")
    seen = observe({change.name: "1"}, sglang__scheduler_TP0={change.name: "8"})
    said = "CUDA_DEVICE_MAX_CONNECTIONS=8 in the environment of process 2 (sglang::scheduler_TP0): "
    assert prove_env(change, seen, workers=WORKERS) == (False, f"{said}the server has overwritten it")


@pytest.mark.parametrize(
    ("title", "environ", "expected"),
    [
        ("sglang__scheduler_TP0", {"X": "1"}, True),
        ("sglang__scheduler_TP0", {"Y": "1"}, False),
        ("sglang__scheduler_TP0", {}, True),
        ("resource_tracker", {"Y": "1"}, True),
        ("resource_tracker", {"X": "2"}, False),
    ],
)
def test_workers_must_have_it_and_helpers_need_not(title: str, environ: dict[str, str], *, expected: bool) -> None:
    assert holds(Env(name="X", value="1"), observe({"X": "1"}, **{title: environ})) is expected


def test_a_variable_that_was_taken_away_and_set_again_is_back() -> None:
    assert holds(Env(name="X"), observe({"A": "1"}, sglang__scheduler={"A": "1"})) is True
    assert holds(Env(name="X"), observe({"A": "1"}, sglang__scheduler={"X": "1"})) is False


def test_devices_are_dealt_out() -> None:
    change = Env(name="CUDA_VISIBLE_DEVICES", value="0,1")
    assert holds(change, observe({change.name: "0,1"}, sglang__scheduler_TP0={change.name: "1"})) is True
    assert holds(change, observe({change.name: "0,1"}, sglang__scheduler_TP0={change.name: "2"})) is False


def test_a_process_that_hides_its_environment_leaves_it_to_the_others() -> None:
    change = Env(name="X", value="1")
    assert holds(change, observe({}, sglang__scheduler_TP0={"X": "1"})) is True
    assert holds(change, observe({}, sglang__scheduler_TP0={"X": "2"})) is False
    assert holds(change, observe({})) is None
