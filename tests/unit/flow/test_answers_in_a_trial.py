"""When a trial asks for answers: not where they can change nothing, and never a keep without them."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from tests.unit.flow.world import SLOTS, World, hypothesis, ready

from knowngood.flow import pairs
from knowngood.flow.bench import Bench
from knowngood.flow.server import Server
from knowngood.flow.trial import run_trial
from knowngood.model.evidence import AnswerCheck, Arm
from knowngood.reason.records import Trial

visits: list[Arm] = []
wrong = 0


class Desk:
    """Stands for the answer desk; the world's engine has no endpoint to ask."""

    def __init__(self, bench: Bench, prompts: Sequence[str], *, version: int) -> None:
        del bench, prompts, version
        self.result: AnswerCheck | None = None
        self.asked = False

    @property
    def is_open(self) -> bool:
        return self.result is None

    def visit(self, server: Server, arm: Arm) -> None:
        del server
        if arm == "baseline" and self.asked:
            self.result = AnswerCheck(asked=20, same=20 - wrong, wrong=wrong, detects=0.14)
        self.asked = self.asked or arm == "candidate"
        visits.append(arm)


@pytest.fixture(autouse=True)
def desk(monkeypatch: pytest.MonkeyPatch) -> None:
    global wrong  # noqa: PLW0603
    visits.clear()
    wrong = 0
    monkeypatch.setattr(pairs, "AnswerDesk", Desk)


def with_answers(tmp_path: Path, gain: float) -> World:

    def speed(world: World) -> float:
        return 1 + gain * world.has("--slots 4")

    world = ready(tmp_path, speed)
    config = msgspec.structs.replace(world.bench.config, answers_mode="same")
    object.__setattr__(world.bench, "config", config)
    return world


def verdict_of(trial: Trial) -> tuple[str, str]:
    assert trial.verdict is not None
    return trial.verdict.decision, trial.verdict.reason


def test_a_hopeless_candidate_is_asked_nothing(tmp_path: Path) -> None:
    world = with_answers(tmp_path, -0.4)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert verdict_of(trial) == ("revert", "regression")
    assert len(trial.launches) == 1
    assert visits == []


def test_a_winner_is_asked_in_its_first_pair(tmp_path: Path) -> None:
    world = with_answers(tmp_path, 0.5)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert verdict_of(trial) == ("keep", "better")
    assert visits[:2] == ["candidate", "baseline"]
    assert trial.answers is not None


def test_what_is_asked_is_no_part_of_what_a_launch_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_answers(tmp_path, 0.5)

    def slow(self: Desk, server: Server, arm: Arm) -> None:
        world.clock.sleep(10_000)
        really(self, server, arm)

    really = Desk.visit
    monkeypatch.setattr(Desk, "visit", slow)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert all(90 <= launch.took_s < 1000 for launch in trial.launches)


def fast(world: World) -> float:
    return 1.5 if world.has("--slots 4") else 1.0


def cut_before_a_keep(tmp_path: Path) -> World:
    """A trial of a clear winner that was cut off after its last pair: going on, it has its verdict at once."""
    world = with_answers(tmp_path, 0.5)
    judged = 0

    def cut(world: World) -> float:
        nonlocal judged
        judged += 1
        if judged == 4:
            raise KeyboardInterrupt
        return 1.5 if world.has("--slots 4") else 1.0

    world.speed = cut
    with pytest.raises(KeyboardInterrupt):
        run_trial(world.bench, hypothesis(SLOTS))
    world.speed = fast
    visits.clear()
    return world


def test_what_goes_on_without_its_answers_is_asked_again_before_it_is_kept(tmp_path: Path) -> None:
    world = cut_before_a_keep(tmp_path)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert verdict_of(trial) == ("keep", "better")
    assert trial.answers is not None
    # The second pair is B C: its candidate was asked too late for its baseline, so one of each is launched for it.
    assert visits[-2:] == ["candidate", "baseline"]
    assert len(trial.launches) == 4


def test_and_is_not_kept_if_they_are_wrong(tmp_path: Path) -> None:
    global wrong  # noqa: PLW0603
    world = cut_before_a_keep(tmp_path)
    wrong = 20
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert verdict_of(trial) == ("revert", "guard")
