"""Races over fakes: every outcome, cut off anywhere, and what a space proposes."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from knowngood.config.lab import AnswersTable, HostTable, LabConfig, ObjectiveTable, ServerTable, VerdictTable
from knowngood.config.space import LineUp
from knowngood.errors import CheckFailed, Died, Refused, UsageError
from knowngood.flow.baseline import record_baseline
from knowngood.flow.bench import Bench, Memory
from knowngood.flow.field import preview_race
from knowngood.flow.race import run_race
from knowngood.flow.recover import recover
from knowngood.model.change import Change, ChangeSet, Edit, Flag, Setting
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import Event, FindingRecorded, LaunchFailed, LaunchMeasured, RaceEnded, TrialEnded
from knowngood.model.evidence import RunRecord
from knowngood.model.finding import Finding
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.race import Knob, Space
from knowngood.model.workload import Workload
from knowngood.reason.answers import Answer, Comparison
from knowngood.reason.findings import change_key
from knowngood.reason.records import RaceRun, Trial
from knowngood.stores.artifacts import ArtifactFolder
from knowngood.testing.fakes import FakeClock, FakeEngine, FakeHost, FakeLoad, FakeStore

FILE = "/srv/engine.py"


class NoAnswers:
    def ask(self, url: str, prompts: object, *, n_tokens: int) -> tuple[Answer, ...]:
        raise AssertionError

    def compare(self, url: str, mine: Answer, theirs: Answer) -> Comparison:
        raise AssertionError


class Notes:
    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, title: str, *, expected_s: float) -> None:
        self.said.append(title)

    def advance(self, step: str, share: float) -> None: ...

    def note(self, text: str) -> None:
        self.said.append(text)


class Killed(BaseException):
    """The process is gone: no clean-up of ours reaches the store or the host."""


class World:
    """A lab whose server is as fast as its threads and slots make it; ``speed`` may raise, too."""

    def __init__(self, tmp_path: Path, speed: Callable[["World"], float], *, noise: float = 0.005) -> None:
        self.clock = FakeClock()
        self.random = random.Random(1)
        self.noise = noise
        self.speed = speed
        self.foreign: Callable[[int], float] = lambda _: 0.0
        self.errors: Callable[[World], int] = lambda _: 0
        self.host = FakeHost({FILE: b"fast = False\n"}, {"thp": "madvise"})
        self.store = FakeStore()
        self.tmp = tmp_path
        self.notes = Notes()
        self.runs = 0
        self.bench = self.open()
        record_baseline(self.bench)

    def open(self) -> Bench:
        config = LabConfig(
            root=self.tmp,
            host=HostTable(),
            server=ServerTable(engine="fake", command=("server", "--threads", "2", "--slots", "1")),
            workloads=(Workload(concurrency=4),),
            objective=ObjectiveTable(),
            worthwhile=0.02,
            direction="higher",
            guards={"error_rate": 0.0},
            answers_mode="off",
            answers=AnswersTable(),
            verdict=VerdictTable(profile="quick"),
        )
        return Bench(
            config=config,
            host=self.host,
            engine=FakeEngine(),
            load=FakeLoad(self.measure),
            examiner=NoAnswers(),
            memory=Memory(self.store),
            artifacts=ArtifactFolder(self.tmp / "artifacts"),
            scratch=self.tmp,
            show=self.notes,
            now=self.clock,
        )

    def measure(self, workload: Workload) -> RunRecord:
        self.clock.sleep(90)
        value = 100 * self.speed(self) * (1 + self.random.gauss(0, self.noise))
        foreign = self.foreign(self.runs)
        self.runs += 1
        return RunRecord(
            workload=workload.name,
            metrics={"output_tok_s": value, "ttft_p99_ms": 10 * self.at("--slots")},
            requests=100,
            errors=self.errors(self),
            seconds=60.0,
            foreign_cores=foreign,
            error_kinds={"timeout": 1},
        )

    def at(self, flag: str) -> int:
        argv = self.host.launches[-1].argv
        return int(argv[argv.index(flag) + 1])

    def race(self, *candidates: Hypothesis, space: Space | None = None) -> tuple[RaceRun, Trial | None]:
        return run_race(self.bench, LineUp(candidates=candidates, space=space))

    def events(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.store.log if isinstance(event, kind)]


def idea(name: str, *members: Change) -> Hypothesis:
    return Hypothesis(name=name, claim=f"{name} helps", changes=ChangeSet(members=members))


def slots(count: int) -> Hypothesis:
    return idea(f"slots-{count}", Flag(flag="--slots", value=str(count)))


def by_slots(world: World) -> float:
    return {1: 1.0, 2: 1.1, 3: 0.9, 4: 1.4}[world.at("--slots")]


def states(race: RaceRun) -> dict[str, str]:
    return {one.name: one.state for one in race.standings}


def decision(trial: Trial | None) -> str:
    return trial.verdict.decision if trial and trial.verdict else ""


def test_the_best_wins_and_is_kept_after_a_trial_of_its_own(tmp_path: Path) -> None:
    world = World(tmp_path, by_slots)
    race, trial = world.race(slots(2), slots(3), slots(4))
    assert (race.winner, decision(trial)) == ("slots-4", "keep")
    assert states(race) == {"slots-4": "winner", "slots-2": "behind", "slots-3": "worse"}
    baseline = world.bench.memory.state.baseline
    assert baseline is not None
    assert baseline.spec.argv[-2:] == ("--slots", "4")
    assert trial is not None
    raced = {launch.started_at for launch in race.launches}
    assert not raced & {launch.started_at for launch in trial.launches}, "the proof is made of fresh launches"
    assert world.host.held_by == ""


def test_the_price_is_said_before_the_first_launch(tmp_path: Path) -> None:
    world = World(tmp_path, by_slots)
    launches = len(world.host.launches)
    found = preview_race(world.bench, LineUp(candidates=(slots(2), slots(3))))
    assert len(world.host.launches) == launches
    assert found.candidates == ("slots-2", "slots-3")
    assert 3 <= found.cost.launches <= found.cost.most_launches
    world.notes.said.clear()
    world.race(slots(2), slots(3))
    assert "at most" in world.notes.said[0]


def test_between_two_launches_the_host_is_at_known_good(tmp_path: Path) -> None:
    edit = Edit(path=FILE, find="False", replace="True")

    def speed(world: World) -> float:
        fast = b"True" in world.host.files[FILE]
        tuned = world.host.values["thp"] == "never"
        assert not (fast and tuned)
        return 1.3 if fast else 1.1 if tuned else 1.0

    world = World(tmp_path, speed)
    race, trial = world.race(idea("edit", edit), idea("thp", Setting(name="thp", value="never")), slots(4))
    assert (race.winner, decision(trial)) == ("edit", "keep")
    assert world.host.values == {"thp": "madvise"}


def test_nobody_wins_if_nobody_looks_better(tmp_path: Path) -> None:
    world = World(tmp_path, lambda w: 0.8 if w.at("--slots") > 1 else 1.0)
    race, trial = world.race(slots(2), slots(3))
    assert (race.winner, trial) == ("", None)
    assert "nobody won" in race.why


def dies(world: World) -> float:
    if world.at("--slots") == 3:
        found = Diagnosis(cause="x", line="--slots 3 is not possible", hard=True, confidence=1.0)
        raise Died("it ended", hint="", diagnosis=found)
    return by_slots(world)


def test_who_does_not_start_drops_out_with_its_diagnosis_and_is_never_launched_again(tmp_path: Path) -> None:
    world = World(tmp_path, dies)
    race, _ = world.race(slots(2), slots(3))
    assert states(race)["slots-3"] == "failed"
    (failure,) = race.failures
    assert failure.diagnosis is not None
    assert failure.diagnosis.member == "flag --slots 3"
    (finding,) = [one for one in world.bench.memory.state.findings if one.sign == "impossible"]
    assert finding.evidence == (race.id,)
    launches = len(world.host.launches)
    again, _ = world.race(slots(3), slots(4))
    assert "known dead end" in again.left_out["slots-3"]
    assert all("3" not in spec.argv for spec in world.host.launches[launches:])


def test_a_race_of_dead_ends_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path, dies)
    world.race(slots(2), slots(3))
    recorded = len(world.store.log)
    with pytest.raises(Refused, match="nobody is left to race"):
        world.race(slots(3))
    assert len(world.store.log) == recorded


def test_everything_is_checked_before_the_first_launch(tmp_path: Path) -> None:
    world = World(tmp_path, by_slots)
    launches = len(world.host.launches)
    with pytest.raises(Refused, match="occurs 0 times"):
        world.race(slots(2), idea("edit", Edit(path=FILE, find="nowhere", replace="x")))
    with pytest.raises(UsageError, match="the same change"):
        world.race(slots(2), idea("twin", Flag(flag="--slots", value="2")))
    assert len(world.host.launches) == launches
    assert world.bench.memory.state.races == {}


def test_whose_requests_fail_drops_out(tmp_path: Path) -> None:
    world = World(tmp_path, by_slots)
    world.errors = lambda w: 20 if w.at("--slots") == 4 else 0
    race, trial = world.race(slots(2), slots(4))
    assert states(race)["slots-4"] == "failed"
    assert "error_rate" in race.failures[0].why
    assert (race.winner, decision(trial)) == ("slots-2", "keep")


def test_a_baseline_that_fails_ends_the_race_as_cut_off(tmp_path: Path) -> None:
    def speed(world: World) -> float:
        if broken and world.at("--slots") == 1:
            raise Died("it ended", hint="")
        return by_slots(world)

    broken: list[bool] = []
    world = World(tmp_path, speed)
    broken.append(True)
    world.clock.sleep(86_400)
    with pytest.raises(Died):
        world.race(slots(2), slots(4))
    (race,) = world.bench.memory.state.races.values()
    assert race.cut_off
    assert world.bench.memory.state.unfinished == ()


def test_a_launch_under_foreign_load_is_repeated_and_a_busy_machine_ends_the_race(tmp_path: Path) -> None:
    world = World(tmp_path, by_slots)
    first = world.runs
    world.foreign = lambda run: 1.0 if run == first + 1 else 0.0
    race, _ = world.race(slots(2), slots(3), slots(4))
    assert len(race.repeats) == 1
    assert len(race.launches) == 3
    assert [one.index for one in race.launches] == [0, 2, 3]
    first = world.runs
    world.foreign = lambda run: 1.0 if run > first else 0.0
    with pytest.raises(CheckFailed, match="foreign load"):
        world.race(slots(2), slots(3))


def cut_at(world: World, launch: int, error: type[BaseException]) -> Callable[[World], float]:
    first, speed, done = world.runs, world.speed, list[bool]()

    def cut(now: World) -> float:
        if now.runs == first + launch and not done:
            done.append(True)
            raise error
        return speed(now)

    return cut


@pytest.mark.parametrize("launch", range(6))
def test_a_race_that_was_cut_off_goes_on_with_its_launches(tmp_path: Path, launch: int) -> None:
    field = [slots(2), slots(3), slots(4)]
    whole = World(tmp_path, by_slots)
    expected, _ = whole.race(*field)
    world = World(tmp_path, by_slots)
    world.speed = cut_at(world, launch, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        world.race(*field)
    done = len(world.events(LaunchMeasured))
    race, trial = world.race(*reversed(field))
    assert (race.winner, decision(trial)) == ("slots-4", "keep")
    again = [event for event in world.events(LaunchMeasured)[done:] if isinstance(event, LaunchMeasured)]
    raced = [event.launch.candidate for event in again if event.launch.candidate]
    assert len(raced) == max(0, len(expected.launches) - launch), "nothing is launched twice"
    assert len(race.launches) == len(expected.launches)


def test_killed_anywhere_recover_and_the_same_command_bring_it_to_its_end(tmp_path: Path) -> None:
    """The store refuses everything from a certain event on, as if the process were gone."""
    whole = World(tmp_path, by_slots)
    begun = len(whole.store.log)
    whole.race(slots(2), slots(4))
    ended = next(at for at, event in enumerate(whole.store.log) if isinstance(event, TrialEnded))
    for alive in range(begun + 1, ended + 1):
        world = World(tmp_path, by_slots)
        append = world.store.append

        def dying(event: Event, *, after: int, alive: int = alive, append: Callable[..., int] = append) -> int:
            if after >= alive:
                raise Killed
            return append(event, after=after)

        world.store.append = dying  # type: ignore[method-assign]
        with pytest.raises(Killed):
            world.race(slots(2), slots(4))
        world.store.append = append  # type: ignore[method-assign]
        world.bench = world.open()
        recover(world.bench)
        race, trial = world.race(slots(2), slots(4))
        assert (race.winner, decision(trial)) == ("slots-4", "keep")
        assert len([one for one in race.launches if one.candidate]) == 2
        assert len(world.events(RaceEnded)) == 1, "a race that was decided is not run again"


def test_a_dead_end_found_before_the_cut_does_not_make_it_another_race(tmp_path: Path) -> None:
    world = World(tmp_path, dies)
    world.speed = cut_at(world, 1, KeyboardInterrupt)
    field = (slots(3), slots(2), slots(4))
    with pytest.raises(KeyboardInterrupt):
        world.race(*field)
    assert len(world.events(LaunchFailed)) == 1
    race, trial = world.race(*field)
    assert race.id == "r0002"
    assert len(world.events(LaunchFailed)) == 1
    assert states(race)["slots-3"] == "failed"
    assert decision(trial) == "keep"


def test_the_ledger_counts_a_launch_once(tmp_path: Path) -> None:
    world = World(tmp_path, by_slots)
    world.clock.sleep(86_400)
    world.speed = cut_at(world, 2, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        world.race(slots(2), slots(3))
    before = len(world.bench.memory.state.ledger)
    world.race(slots(2), slots(3))
    ledger = world.bench.memory.state.ledger
    assert len({launch.started_at for launch in ledger}) == len(ledger)
    assert before == 9


SPACE = Space(
    name="space",
    knobs=(
        Knob(kind="flag", name="--threads", low=1, high=4, step=1),
        Knob(kind="flag", name="--slots", choices=(1, 2, 4)),
    ),
    forbid=({"--threads": (1,), "--slots": (4,)},),
    launches=20,
)


def hill(world: World) -> float:
    return 1.0 + 0.1 * (world.at("--threads") - 2) + 0.1 * (world.at("--slots") - 1)


def asked(world: World, race: RaceRun) -> list[tuple[object, object]]:
    return [(values["--threads"], values["--slots"]) for values in race.values.values()]


def test_a_small_space_is_launched_in_full_and_its_best_is_kept(tmp_path: Path) -> None:
    world = World(tmp_path, hill)
    race, trial = world.race(space=SPACE)
    combos = asked(world, race)
    assert len(combos) == len(set(combos)) == 4 * 3 - 2
    assert (2, 1) not in combos, "the baseline is not a proposal"
    assert (1, 4) not in combos, "what is forbidden is not proposed"
    assert (race.winner, decision(trial)) == ("threads=4, slots=4", "keep")
    assert trial is not None
    assert trial.hypothesis.changes.members == (
        Flag(flag="--threads", value="4"),
        Flag(flag="--slots", value="4"),
    )


def with_dead_end(world: World, *members: Change) -> None:
    baseline = world.bench.memory.state.baseline
    assert baseline is not None
    found = Finding(
        id="f0001",
        claim="it does not start",
        sign="impossible",
        change_key=change_key(ChangeSet(members=members)),
        scope={name: baseline.facts[name] for name in ("engine",) if name in baseline.facts},
        evidence=("t0001",),
    )
    world.bench.memory.record(FindingRecorded(at=world.clock(), finding=found))


def test_a_value_that_is_a_dead_end_is_never_proposed(tmp_path: Path) -> None:
    world = World(tmp_path, hill)
    with_dead_end(world, Flag(flag="--threads", value="4"))
    race, _ = world.race(space=SPACE)
    combos = asked(world, race)
    assert len(combos) == 7
    assert all(threads != 4 for threads, _ in combos)


def test_a_value_found_guilty_is_not_proposed_again(tmp_path: Path) -> None:
    def speed(world: World) -> float:
        if world.at("--slots") == 4:
            raise Died("it ended", hint="", diagnosis=Diagnosis(cause="x", line="--slots: too many", confidence=1.0))
        return hill(world)

    world = World(tmp_path, speed)
    race, trial = world.race(space=SPACE)
    assert sum(slots == 4 for _, slots in asked(world, race)) == 1
    assert len(race.failures) == 1
    assert decision(trial) == "keep"


def test_a_space_goes_on_after_it_was_cut_off_even_with_another_budget(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    import msgspec

    short = msgspec.structs.replace(SPACE, launches=6)
    whole, _ = World(tmp_path, hill).race(space=short)
    world = World(tmp_path, hill)
    world.speed = cut_at(world, 3, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        world.race(space=short)
    race, _ = world.race(space=short)
    assert asked(world, race) == asked(world, whole)
    assert len(race.values) == 6
    world = World(tmp_path, hill)
    world.speed = cut_at(world, 3, KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        world.race(space=short)
    longer, _ = world.race(space=SPACE)
    assert asked(world, longer)[:3] == asked(world, whole)[:3]
    assert len(longer.values) == 10


def test_a_budget_of_minutes_ends_the_proposals(tmp_path: Path) -> None:
    import msgspec

    world = World(tmp_path, hill)
    race, _ = world.race(space=msgspec.structs.replace(SPACE, launches=500, minutes=4.0))
    assert len(race.values) == 4, "a launch takes 61 s here"


def test_failures_are_told_to_optuna_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("optuna")
    from knowngood.reason import propose as module

    told: list[Sequence[module.Tried]] = []
    real = module.study_of

    def spy(space: Space, tried: Sequence[module.Tried], standing: dict[str, str | None]) -> object:
        told.append(tried)
        return real(space, tried, standing)

    monkeypatch.setattr(module, "study_of", spy)

    def speed(world: World) -> float:
        if world.at("--threads") == 3:
            raise Died("it ended", hint="")
        return hill(world)

    import msgspec

    world = World(tmp_path, speed)
    race, _ = world.race(space=msgspec.structs.replace(SPACE, launches=8))
    failed = {one.candidate for one in race.failures}
    assert failed
    for tried in told:
        assert [one.effect is None for one in tried] == [one.values["--threads"] == 3 for one in tried]
