"""Isolation over fakes: every kind of outcome, and being cut off anywhere."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.flow.world import EDIT, FILE, World, hypothesis, ready

from knowngood.errors import Died, KnowngoodError, LoadError, NotReady, Refused, StoreError, UsageError
from knowngood.flow.isolate import Outline, isolate, plan_isolation
from knowngood.flow.recover import recover
from knowngood.flow.trial import run_trial
from knowngood.model.change import Change, Edit, Env, Flag, Patch
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import (
    Event,
    FindingRecorded,
    IsolationEnded,
    IsolationStarted,
    SubsetLaunched,
    TrialStarted,
)
from knowngood.model.hypothesis import Hypothesis, Prediction
from knowngood.reason.patches import file_diff
from knowngood.reason.records import Isolation, Trial
from knowngood.reason.suspicion import confirmation, worth_isolating

FLAGS = tuple(Flag(flag=f"--f{number}", value="1") for number in range(6))


def crash(message: str = "it ended 0.4 s after its start", cause: str = "unknown", *, hard: bool = False) -> Died:
    line = f"error: {message}"
    return Died(message, hint="", diagnosis=Diagnosis(cause=cause, line=line, hard=hard, abstained=cause == "unknown"))


def crashing(reason: Callable[[World], bool], error: Callable[[], KnowngoodError] = crash) -> Callable[[World], float]:
    def speed(world: World) -> float:
        if reason(world):
            raise error()
        return 1.0

    return speed


def go(world: World, *members: Change, confirm: bool = True, asked: Hypothesis | None = None) -> Isolation:
    return isolate(world.bench, plan(world, *members, asked=asked), confirm=confirm)


def plan(world: World, *members: Change, asked: Hypothesis | None = None) -> Outline:
    return plan_isolation(world.bench, asked or hypothesis(*members))


def left_out(done: Isolation) -> list[tuple[str, ...]]:
    assert done.result is not None
    return [culprit.members for culprit in done.result.culprits]


def subsets(world: World) -> list[SubsetLaunched]:
    return [event for event in world.store.log if isinstance(event, SubsetLaunched)]


def trial_of(world: World, done: Isolation) -> Trial:
    found = confirmation(world.bench.memory.state, done)
    assert found is not None
    return found


def test_the_culprit_of_a_void_trial_is_found_and_the_rest_gets_its_verdict(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.0)
    world.speed = crashing(lambda w: w.has("--f3 1"))
    trial = run_trial(world.bench, hypothesis(*FLAGS))
    assert worth_isolating(trial)
    crash_or_one = world.speed

    def faster(w: World) -> float:
        return crash_or_one(w) * (1.5 if w.has("--f1 1") else 1.0)

    world.speed = faster
    done = go(world, *FLAGS)
    assert left_out(done) == [("flag --f3 1",)]
    assert done.result is not None
    (culprit,) = done.result.culprits
    assert culprit.alone
    assert [launch.subset for launch in subsets(world)][-1] == (3,)
    assert done.trial == trial.id
    verdict = trial_of(world, done).verdict
    assert verdict is not None
    assert verdict.decision == "keep"
    baseline = world.bench.memory.state.baseline
    assert baseline is not None
    assert "--f1" in baseline.spec.argv
    assert "--f3" not in baseline.spec.argv
    finding = world.bench.memory.state.findings[0]
    assert (finding.sign, finding.evidence) == ("hurts", (done.id, trial.id))


def test_between_launches_the_host_is_at_known_good_and_held(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.0)
    seen: list[tuple[bool, bool]] = []

    def speed(w: World) -> float:
        seen.append((bool(w.host.held_by), b"True" in w.host.files[FILE]))
        return crashing(lambda w: w.has("--f1 1") and b"True" in w.host.files[FILE])(w)

    world.speed = speed
    done = go(world, EDIT, *FLAGS[:3])
    assert [set(culprit.members + culprit.beside) for culprit in done.result.culprits] == [  # type: ignore[union-attr]
        {"flag --f1 1", f"edit {FILE}"}
    ]
    assert all(held for held, _ in seen)
    assert any(edited for _, edited in seen)
    assert world.host.files[FILE] == b"fast = False\n"
    assert world.host.journal.transactions() == []
    assert world.host.held_by == ""


def test_a_set_that_was_never_tried_is_launched_whole_first(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f2 1")))
    outline = plan(world, *FLAGS)
    done = isolate(world.bench, outline)
    assert subsets(world)[0].subset == tuple(range(6))
    assert left_out(done) == [("flag --f2 1",)]
    assert len(subsets(world)) <= outline.most_launches


def test_a_set_that_runs_has_nothing_to_be_left_out(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.0)
    done = go(world, *FLAGS)
    assert left_out(done) == []
    assert len(subsets(world)) == 1
    assert world.events(TrialStarted) == []


def test_a_hard_failure_makes_a_dead_end_of_the_culprit_alone(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f4 1"), lambda: crash("no kernel", "x", hard=True)))
    go(world, *FLAGS, confirm=False)
    (finding,) = world.bench.memory.state.findings
    assert finding.sign == "impossible"
    with pytest.raises(Refused, match="dead end"):
        run_trial(world.bench, hypothesis(FLAGS[4], name="alone"))
    assert go(world, *FLAGS[3:], confirm=False).result is not None, "a dead end can be taken apart"


def test_what_only_fails_together_is_named_together(tmp_path: Path) -> None:
    hard = crashing(lambda w: w.has("--f1 1") and w.has("--f4 1"), lambda: crash("no kernel", "x", hard=True))
    world = ready(tmp_path, hard)
    done = go(world, *FLAGS, confirm=False)
    assert done.result is not None
    (culprit,) = done.result.culprits
    assert not culprit.alone
    assert {*culprit.members, *culprit.beside} == {"flag --f1 1", "flag --f4 1"}
    assert "no kernel" in culprit.why
    run_trial(world.bench, hypothesis(FLAGS[4], name="alone"))
    with pytest.raises(Refused, match="dead end"):
        run_trial(world.bench, hypothesis(FLAGS[1], FLAGS[4], name="both"))


def test_another_failure_is_told_from_the_one_that_is_looked_for(tmp_path: Path) -> None:
    def speed(w: World) -> float:
        if w.has("--f0 1"):
            raise crash("bad argument")
        if w.has("--f5 1"):
            raise crash("no such file")
        return 1.0

    world = ready(tmp_path, speed)
    done = go(world, *FLAGS, confirm=False)
    assert done.result is not None
    found = {culprit.members[0]: (culprit.alone, culprit.why) for culprit in done.result.culprits}
    assert found["flag --f0 1"] == (True, "bad argument")
    assert found["flag --f5 1"] == (False, "no such file")


def test_hunks_of_a_patch_are_told_apart(tmp_path: Path) -> None:
    world = World(tmp_path, lambda w: 1.0)
    before = "".join(f"line {number}\n" for number in range(60)).encode()
    after = before.replace(b"line 5\n", b"a\n").replace(b"line 30\n", b"b\nc\n").replace(b"line 55\n", b"d\n")
    world.host.files["/srv/m.py"] = before
    from knowngood.flow.baseline import record_baseline

    record_baseline(world.bench)
    world.speed = crashing(lambda w: b"b\nc\n" in w.host.files["/srv/m.py"])
    done = go(world, Patch(name="m.patch", root="/srv", diff=file_diff("m.py", before, after)), confirm=False)
    assert left_out(done) == [("patch m.patch in /srv: m.py line 28",)]
    assert done.result is not None
    (rest,) = done.result.rest.changes.members
    assert isinstance(rest, Patch)
    assert (b"+a\n" in rest.diff, b"+b\n" in rest.diff, b"+d\n" in rest.diff) == (True, False, True)
    assert world.host.files["/srv/m.py"] == before


@pytest.mark.parametrize("at", range(8))
def test_cut_off_anywhere_it_goes_on_with_what_it_knows(tmp_path: Path, at: int) -> None:
    def build(folder: Path) -> World:
        folder.mkdir()
        return ready(folder, crashing(lambda w: w.has("--f1 1") and w.has("--f4 1")))

    straight = build(tmp_path / "straight")
    wanted = go(straight, *FLAGS, EDIT, confirm=False)
    world = build(tmp_path / "cut")
    first = world.runs
    speed = world.speed

    def cut(w: World) -> float:
        if len(w.host.launches) - first_launches > at:
            w.speed = speed
            raise KeyboardInterrupt
        return speed(w)

    first_launches = len(world.host.launches)
    world.speed = cut
    if at < len(subsets(straight)):
        with pytest.raises(KeyboardInterrupt):
            go(world, *FLAGS, EDIT, confirm=False)
    assert first <= world.runs
    assert world.host.files[FILE] == b"fast = False\n"
    assert world.host.held_by == ""
    world.bench = world.open()
    done = go(world, *FLAGS, EDIT, confirm=False)
    assert left_out(done) == left_out(wanted)
    assert [one.subset for one in subsets(world)] == [one.subset for one in subsets(straight)]


def test_a_full_disk_ends_it_and_nothing_is_lost(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f3 1")))
    append = world.store.append

    def full(event: Event, *, after: int) -> int:
        if isinstance(event, SubsetLaunched) and event.index == 2:
            raise StoreError("no space left on device", hint="make room")
        return append(event, after=after)

    world.store.append = full  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        go(world, *FLAGS, confirm=False)
    world.store.append = append  # type: ignore[method-assign]
    world.bench = world.open()
    assert recover(world.bench) == ()
    done = go(world, *FLAGS, confirm=False)
    assert left_out(done) == [("flag --f3 1",)]
    assert len({one.subset for one in subsets(world)}) == len(subsets(world))


def test_cut_off_in_the_trial_of_the_survivors_only_that_goes_on(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f3 1")), noise=0.02)
    speed = world.speed

    def cut(w: World) -> float:
        if len(w.events(TrialStarted)):
            w.speed = speed
            raise KeyboardInterrupt
        return speed(w)

    world.speed = cut
    with pytest.raises(KeyboardInterrupt):
        go(world, *FLAGS)
    launched = len(subsets(world))
    done = go(world, *FLAGS)
    assert len(subsets(world)) == launched
    assert trial_of(world, done).verdict is not None
    assert len(world.events(IsolationStarted)) == len(world.events(IsolationEnded)) == 1
    again = go(world, *FLAGS)
    assert again.id != done.id, "what is complete begins anew"


def test_without_a_trial_it_can_be_had_later(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f3 1")))
    done = go(world, *FLAGS, confirm=False)
    assert world.events(TrialStarted) == []
    assert go(world, *FLAGS).id == done.id
    assert len(world.events(TrialStarted)) == 1


@pytest.mark.parametrize(
    "error",
    [
        lambda: crash("port taken", "network_port_or_interface"),
        lambda: crash("out of memory", "gpu_oom_load"),
        lambda: NotReady("it was not ready after 60 s", hint="", diagnosis=None),
        lambda: LoadError("all 8 requests failed: timeout (8)", hint=""),
    ],
)
def test_a_failure_that_may_be_the_hosts_fault_is_repeated_once(
    tmp_path: Path, error: Callable[[], KnowngoodError]
) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f3 1"), lambda: crash("bad argument", "bad_flag_or_env")))
    speed = world.speed
    struck: list[int] = []

    def flaky(w: World) -> float:
        if len(subsets(w)) == 1 and not struck:
            struck.append(1)
            raise error()
        return speed(w)

    world.speed = flaky
    done = go(world, *FLAGS, confirm=False)
    assert left_out(done) == [("flag --f3 1",)]
    assert [one.counts for one in subsets(world)][:3] == [True, False, True]
    assert subsets(world)[1].subset == subsets(world)[2].subset


def test_what_fails_twice_for_lack_of_memory_is_a_failure(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f3 1"), lambda: crash("out of memory", "gpu_oom_load")))
    done = go(world, *FLAGS, confirm=False)
    assert left_out(done) == [("flag --f3 1",)]
    failing = [one for one in subsets(world) if one.outcome == "failed"]
    assert sum(one.counts for one in failing) * 2 == len(failing)


def test_declared_members_are_never_parted(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f2 1")))
    idea = hypothesis(*FLAGS)
    from msgspec.structs import replace

    idea = replace(idea, changes=replace(idea.changes, groups=((0, 2),)))
    done = go(world, asked=idea, confirm=False)
    assert left_out(done) == [("flag --f0 1", "flag --f2 1")]
    together = [{0, 2} <= {i for item in one.subset for i in members_of(done, item)} for one in subsets(world)]
    apart = [bool({0, 2} & {i for item in one.subset for i in members_of(done, item)}) for one in subsets(world)]
    assert together == apart


def members_of(done: Isolation, item: int) -> list[int]:
    return [int(name.split("--f")[1][0]) for name in done.items[item]]


def surprising(world: World, *members: Change) -> Trial:
    predicts = Prediction(metric="output_tok_s", low=0.05, high=0.2)
    from msgspec.structs import replace

    return run_trial(world.bench, replace(hypothesis(*members), predicts=predicts))


def test_a_surprise_is_taken_apart_by_what_is_measured(tmp_path: Path) -> None:
    def speed(w: World) -> float:
        return (0.80 if w.has("--f3 1") else 1.0) * (1.08 if w.has("--f1 1") and w.has("--f5 1") else 1.0)

    world = ready(tmp_path, speed, noise=0.005)
    trial = surprising(world, *FLAGS)
    assert trial.verdict is not None
    assert trial.verdict.reason == "regression"
    assert worth_isolating(trial)
    outline = plan(world, *FLAGS)
    assert (outline.kind, outline.launches) == ("effect", 12)
    done = isolate(world.bench, outline)
    assert done.result is not None
    assert {FLAGS[1], FLAGS[5]} <= set(done.result.rest.changes.members)
    assert FLAGS[3] not in done.result.rest.changes.members
    worst = min(done.result.culprits, key=lambda culprit: culprit.estimate or 0.0)
    assert worst.members == ("flag --f3 1",)
    assert worst.high is not None
    assert worst.high < 0
    verdict = trial_of(world, done).verdict
    assert verdict is not None
    assert verdict.decision == "keep"
    hurts = [finding for finding in world.bench.memory.state.findings if done.id in finding.evidence]
    assert [finding.claim for finding in hurts] == ["flag --f3 1 makes it worse"]


def test_less_is_better_for_a_latency(tmp_path: Path) -> None:
    from msgspec.structs import replace

    world = ready(tmp_path, lambda w: 1.25 if w.has("--f3 1") else 1.0, noise=0.005)
    objective = replace(world.bench.config.objective, metric="ttft_p99_ms")
    config = replace(world.bench.config, objective=objective, direction="lower", guards={})
    world.config = lambda: config  # type: ignore[method-assign]
    world.bench = world.open()
    from knowngood.flow.baseline import record_baseline

    record_baseline(world.bench)
    done = isolate(world.bench, plan_isolation(world.bench, hypothesis(*FLAGS), kind="effect"), confirm=False)
    assert done.result is not None
    assert FLAGS[3] in done.result.rest.changes.members
    assert all(culprit.estimate is not None and culprit.estimate < 0.05 for culprit in done.result.culprits)


def test_a_launch_beside_foreign_load_is_measured_again(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 0.8 if w.has("--f3 1") else 1.0, noise=0.005)
    first = world.runs
    world.foreign = lambda run: 0.9 if run in (first + 4, first + 5) else 0.0
    done = isolate(world.bench, plan_isolation(world.bench, hypothesis(*FLAGS), kind="effect"), confirm=False)
    spoilt = [one for one in subsets(world) if not one.counts]
    assert len(spoilt) == 1
    assert done.result is not None
    assert done.result.launches == 13


def test_a_trial_that_asks_for_nothing_offers_nothing(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 0.7 if w.has("--f3 1") else 1.0)
    assert not worth_isolating(run_trial(world.bench, hypothesis(*FLAGS, name="no prediction")))
    assert not worth_isolating(surprising(world, FLAGS[3]))
    world.foreign = lambda run: 0.5 if run % 2 else 0.0
    assert not worth_isolating(run_trial(world.bench, hypothesis(*FLAGS[:3], name="uneven")))


def test_what_cannot_be_taken_apart_is_refused(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.0)
    with pytest.raises(UsageError, match="nothing that could be left out"):
        plan(world, FLAGS[0])
    with pytest.raises(UsageError, match="nothing that could be left out"):
        plan(world)
    with pytest.raises(Refused, match="occurs 0 times"):
        plan(world, FLAGS[0], Edit(path=FILE, find="nowhere", replace="x"))
    assert world.events(IsolationStarted) == []


def test_a_null_member_survives(tmp_path: Path) -> None:
    world = ready(tmp_path, crashing(lambda w: w.has("--f0 1")))
    done = go(world, FLAGS[0], Env(name="A", value="1"), confirm=False)
    assert done.result is not None
    assert done.result.rest.changes.members == (Env(name="A", value="1"),)
    assert done.result.rest.name == "idea-survivors"
    assert world.events(FindingRecorded)
