"""The engine's checks of itself, over fakes; and what the whole engine makes of many changes that are none."""

import math
from pathlib import Path

import msgspec
import pytest
from tests.unit.flow.world import EDIT, FILE, SLOTS, World, hypothesis, ready

from knowngood.errors import Refused, UsageError
from knowngood.flow.checks import run_check
from knowngood.flow.recover import undo
from knowngood.flow.trial import run_trial
from knowngood.model.baseline import Baseline
from knowngood.model.change import Env
from knowngood.model.hypothesis import Hypothesis, Prediction
from knowngood.model.verdict import Verdict
from knowngood.reason.checks import alarms, due_check
from knowngood.reason.fold import LabState


def known(world: World) -> Baseline:
    found = world.bench.memory.state.baseline
    assert found is not None
    return found


def both(world: World) -> float:
    return (1.5 if world.has("--slots", "4") else 1.0) * (1.4 if world.host.seen[-1][FILE] == b"fast = True\n" else 1.0)


def test_a_self_test_measures_the_same_thing_twice_and_changes_nothing(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    before, noise = known(world), world.bench.memory.state.noise
    check = run_check(world.bench, "self_test")
    assert check.id == "c0001"
    assert check.verdict is not None
    assert check.verdict.decision != "keep"
    assert known(world) is before
    assert world.bench.memory.state.trials == {}
    # Every pair of it is an A/A difference.
    assert len(world.bench.memory.state.noise) == len(noise) + check.verdict.pairs
    assert {launch.argv for launch in world.host.launches} == {("server", "--slots", "1")}


def test_a_champion_check_puts_the_original_up_against_all_keeps(tmp_path: Path) -> None:
    world = ready(tmp_path, both)
    run_trial(world.bench, hypothesis(SLOTS, name="slots"))
    run_trial(world.bench, hypothesis(EDIT, name="edit"))
    assert len(known(world).kept) == 2
    begun = len(world.host.launches)
    check = run_check(world.bench, "champion")
    assert check.verdict is not None
    assert check.verdict.decision == "keep"
    assert check.verdict.low is not None
    assert check.verdict.high is not None
    assert check.verdict.low < 1.1 < check.verdict.high
    arms = {
        (launch.argv[-1], seen[FILE])
        for launch, seen in zip(world.host.launches[begun:], world.host.seen[begun:], strict=True)
    }
    assert arms == {("4", b"fast = True\n"), ("1", b"fast = False\n")}
    assert world.host.files[FILE] == b"fast = True\n"
    assert known(world).kept == ("t0001", "t0002")
    assert alarms(world.bench.memory.state) == ()
    undo(world.bench)


def test_a_champion_that_lost_is_an_alarm_until_the_known_good_changes(tmp_path: Path) -> None:
    faded = False

    def speed(world: World) -> float:
        return 1.5 if world.has("--slots", "4") and not faded else 1.0

    world = ready(tmp_path, speed)
    run_trial(world.bench, hypothesis(SLOTS))
    faded = True
    run_check(world.bench, "champion")
    (alarm,) = alarms(world.bench.memory.state)
    assert "not proven better than the original" in alarm
    undo(world.bench)
    assert alarms(world.bench.memory.state) == ()


def test_a_check_interrupted_leaves_nothing_under_way(tmp_path: Path) -> None:
    def speed(world: World) -> float:
        if world.runs >= 8:
            raise KeyboardInterrupt
        return 1.0

    world = ready(tmp_path, speed)
    with pytest.raises(KeyboardInterrupt):
        run_check(world.bench, "self_test")
    assert world.bench.memory.state.unfinished == ()
    assert due_check(world.bench.memory.state, self_test_every=1, champion_every=0) is None


def test_there_is_no_champion_before_the_first_keep(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    with pytest.raises(UsageError, match="nothing is kept"):
        run_check(world.bench, "champion")


def test_checks_are_due_after_so_many_trials_and_so_many_keeps(tmp_path: Path) -> None:
    world = ready(tmp_path, both)

    def due() -> str | None:
        return due_check(world.bench.memory.state, self_test_every=3, champion_every=2)

    assert due() is None
    for number in range(2):
        run_trial(world.bench, hypothesis(Env(name="X", value=str(number))))
    assert due() is None
    run_trial(world.bench, hypothesis(SLOTS))
    assert due() == "self_test"
    run_check(world.bench, "self_test")
    assert due() is None
    run_trial(world.bench, hypothesis(EDIT))
    assert due() == "champion"
    run_check(world.bench, "champion")
    assert due() is None


def test_one_kept_self_test_is_an_alarm_and_one_of_a_hundred_is_none(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    check = run_check(world.bench, "self_test")
    kept = msgspec.structs.replace(check, verdict=Verdict(decision="keep", reason="better"), launches=())
    fine = msgspec.structs.replace(check, launches=())

    def state(keeps: int, of: int) -> LabState:
        checks = {f"c{at}": kept if at < keeps else fine for at in range(of)}
        return msgspec.structs.replace(world.bench.memory.state, checks=checks)

    assert "1 of 1 self-tests kept" in alarms(state(1, 1))[0]
    assert alarms(state(1, 100)) == ()
    assert "5 of 100" in alarms(state(5, 100))[0]


def test_self_tests_that_spread_more_than_the_floor_says_are_an_alarm(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0, noise=0.002)
    world.noise = 0.10
    for _ in range(6):
        run_check(world.bench, "self_test")
    quiet = msgspec.structs.replace(world.bench.memory.state, noise=(0.002, -0.003, 0.001, -0.002, 0.003, 0.002))
    assert any("spread by" in alarm for alarm in alarms(quiet))


def predicts(metric: str, low: float, high: float) -> Hypothesis:
    idea = hypothesis(SLOTS)
    return msgspec.structs.replace(idea, predicts=Prediction(metric=metric, low=low, high=high))


def test_a_prediction_too_small_to_be_found_is_refused_before_anything_starts(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0, noise=0.03)
    begun = len(world.host.launches)
    with pytest.raises(
        Refused, match=r"idea predicts \+1\.0% at best, and the profile quick finds effects from"
    ) as why:
        run_trial(world.bench, predicts("output_tok_s", 0.005, 0.01))
    assert "--force" in why.value.hint
    assert len(world.host.launches) == begun
    assert world.bench.memory.state.trials == {}
    assert run_trial(world.bench, predicts("output_tok_s", 0.005, 0.01), force=True).verdict is not None


@pytest.mark.parametrize(
    "asked",
    [predicts("output_tok_s", 0.3, 0.6), predicts("itl_p50_ms", -0.01, -0.005), predicts("output_tok_s", -0.02, -0.01)],
)
def test_other_predictions_are_tried(tmp_path: Path, asked: Hypothesis) -> None:
    world = ready(tmp_path, lambda _: 1.0, noise=0.03)
    assert run_trial(world.bench, asked).verdict is not None


class Unsteady(World):
    """A machine that drifts, has bad launches, and loses time in some runs, as real ones do."""

    def __init__(self, tmp_path: Path, seed: int) -> None:
        self.drift, self.launch, self.launches = 0.0, 0.0, 0
        super().__init__(tmp_path, lambda _: 1.0, noise=0.015, seed=seed)
        self.speed = self.wander

    def wander(self, world: World) -> float:
        chance = self.random
        # Ornstein-Uhlenbeck with 2.5 % and one hour; one step a run of 90 s.
        stays = math.exp(-90 / 3600)
        self.drift = self.drift * stays + chance.gauss(0, 0.025) * math.sqrt(1 - stays**2)
        if len(world.host.launches) != self.launches:
            self.launches = len(world.host.launches)
            bad = chance.random() < 0.02
            self.launch = chance.gauss(0, 0.02) - (chance.uniform(0.1, 0.3) if bad else 0.0)
        loss = chance.uniform(0.1, 0.3) if chance.random() < 0.02 else 0.0
        return math.exp(self.drift + self.launch) * (1 - loss)


@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_of_two_hundred_hidden_null_trials_of_the_whole_engine_at_most_two_are_kept(
    tmp_path: Path, profile: str
) -> None:
    keeps = trials = 0
    for seed in range(10):
        world = ready_unsteady(tmp_path, seed)
        for number in range(20):
            idea = hypothesis(Env(name="NOTHING", value=str(number)), name=f"null-{number}")
            verdict = run_trial(world.bench, idea, profile=profile).verdict
            assert verdict is not None
            assert verdict.decision != "void"
            keeps += verdict.decision == "keep"
            trials += 1
    assert trials == 200
    assert keeps <= 2


def ready_unsteady(tmp_path: Path, seed: int) -> World:
    from knowngood.flow.baseline import record_baseline

    world = Unsteady(tmp_path, seed)
    record_baseline(world.bench)
    return world
