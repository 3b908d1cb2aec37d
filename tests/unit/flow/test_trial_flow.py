"""The procedures over fakes: every outcome, and every fault that cannot be produced for real."""

from pathlib import Path

import msgspec
import pytest
from tests.unit.flow.world import EDIT, FILE, SLOTS, World, hypothesis, ready

from knowngood.errors import CheckFailed, Conflict, Died, Drift, LoadError, Quarantined, Refused, StoreError, UsageError
from knowngood.flow.baseline import record_baseline
from knowngood.flow.preflight import left_over
from knowngood.flow.recover import drifted, files_after_undo, recover, undo
from knowngood.flow.trial import run_trial
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet, Edit, Env, Setting
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import Event, LaunchFailed, LaunchMeasured, TrialEnded, TrialStarted
from knowngood.model.evidence import Proof
from knowngood.model.hypothesis import Hypothesis, Sign
from knowngood.model.launch import LaunchSpec
from knowngood.reason.rank import left_untested


def test_a_clear_gain_is_kept_and_becomes_the_baseline(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert (trial.verdict.decision, trial.verdict.reason) == ("keep", "better")
    assert trial.verdict.launches <= 4
    baseline = world.bench.memory.state.baseline
    assert baseline is not None
    assert (baseline.version, baseline.spec.argv, baseline.kept) == (2, ("server", "--slots", "4"), (trial.id,))
    assert [finding.sign for finding in world.bench.memory.state.findings] == ["helps"]


def test_a_loss_is_reverted_and_the_files_are_back(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 0.7 if b"True" in w.host.files[FILE] else 1.0)
    trial = run_trial(world.bench, hypothesis(EDIT))
    assert trial.verdict is not None
    assert (trial.verdict.decision, trial.verdict.reason) == ("revert", "regression")
    assert world.host.files[FILE] == b"fast = False\n"
    assert world.host.journal.transactions() == []


def test_edits_are_on_the_host_in_candidate_launches_only(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.4 if b"True" in w.host.files[FILE] else 1.0)
    trial = run_trial(world.bench, hypothesis(EDIT))
    seen = [b"True" in files[FILE] for files in world.host.seen[-len(trial.launches) :]]
    assert seen == [launch.arm == "candidate" for launch in trial.launches]
    assert [launch.arm for launch in trial.launches[:4]] == ["candidate", "baseline", "baseline", "candidate"]


def test_a_kept_edit_stays_and_undo_takes_it_back(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.4 if b"True" in w.host.files[FILE] else 1.0)
    run_trial(world.bench, hypothesis(EDIT))
    assert world.host.files[FILE] == b"fast = True\n"
    assert [tx.state for tx in world.host.journal.transactions()] == ["kept"]
    taken = undo(world.bench)
    assert world.host.files[FILE] == b"fast = False\n"
    assert world.bench.memory.state.trials[taken.id].undone
    baseline = world.bench.memory.state.baseline
    assert baseline is not None
    assert (baseline.version, baseline.kept, baseline.files) == (3, (), {})
    with pytest.raises(UsageError, match="nothing is kept"):
        undo(world.bench)


def test_a_null_change_is_not_kept(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0, noise=0.02)
    trial = run_trial(world.bench, hypothesis())
    assert trial.verdict is not None
    assert trial.verdict.decision in ("revert", "inconclusive")


def test_a_member_that_is_not_in_force_makes_the_trial_void(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 2.0)
    world.proof = lambda change, _: Proof(member=str(change), holds=False, evidence="/slots says speculative: false")
    world.bench = world.open()
    record_baseline(world.bench)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert trial.verdict.decision == "void"
    assert "speculative: false" in trial.verdict.why
    assert trial.launches == ()


def test_a_hard_failure_becomes_a_dead_end_that_is_enforced(tmp_path: Path) -> None:
    def speed(world: World) -> float:
        if world.has("--slots 4"):
            raise Died("it ended", hint="", diagnosis=Diagnosis(cause="x", line="quantized V cache", hard=True))
        return 1.0

    world = ready(tmp_path, speed)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert trial.verdict.decision == "void"
    assert world.bench.memory.state.findings[0].sign == "impossible"
    launches = len(world.host.launches)
    with pytest.raises(Refused, match="dead end"):
        run_trial(world.bench, hypothesis(SLOTS, name="the same in other words"))
    assert len(world.host.launches) == launches
    again = run_trial(world.bench, hypothesis(SLOTS), override="a new build")
    assert again.verdict is not None
    assert again.verdict.decision == "void"


def test_a_failed_launch_names_the_member_and_leaves_the_others_to_be_tried(tmp_path: Path) -> None:
    line = "--slots needs a GPU"
    nccl = Env(name="NCCL_BUFFSIZE", value="1")

    def speed(world: World) -> float:
        if world.has("--slots 4"):
            found = Diagnosis(cause="incompatible_features", line=line, hard=True, confidence=0.9, frames=("/py/a.py",))
            raise Died("it ended", hint="", diagnosis=found)
        return 1.0

    world = ready(tmp_path, speed)
    trial = run_trial(world.bench, hypothesis(SLOTS, nccl))
    assert trial.diagnosis is not None
    assert (trial.diagnosis.member, trial.diagnosis.sure > 0.9) == ("flag --slots 4", True)
    assert left_untested((trial,)) == ("t0001 idea: try by itself, it was not tested: env NCCL_BUFFSIZE=1",)
    # The dead end is the flag, whatever else is set; the variable is free.
    with pytest.raises(Refused, match="dead end"):
        run_trial(world.bench, hypothesis(SLOTS, Env(name="X", value="1"), name="other"))
    alone = run_trial(world.bench, hypothesis(nccl, name="alone"))
    assert alone.verdict is not None
    assert alone.verdict.decision != "void"
    assert left_untested((trial, alone)) == ()


def test_a_soft_failure_is_no_dead_end(tmp_path: Path) -> None:
    def speed(world: World) -> float:
        if world.has("--slots 4"):
            raise Died("it ended", hint="", diagnosis=Diagnosis(cause="gpu_oom_load", line="out of memory"))
        return 1.0

    world = ready(tmp_path, speed)
    run_trial(world.bench, hypothesis(SLOTS))
    assert world.bench.memory.state.findings == ()


def test_a_baseline_that_fails_says_nothing_about_the_change(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else fail(w))

    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert trial.verdict.decision == "void"
    assert "baseline" in trial.verdict.why
    assert world.bench.memory.state.findings == ()


def fail(world: World) -> float:
    if world.events(TrialStarted):
        raise Died("it ended", hint="", diagnosis=Diagnosis(cause="x", line="y", hard=True))
    return 1.0


def test_uneven_foreign_load_repeats_the_pair_and_then_voids(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    world.foreign = lambda run: 0.5 if run % 2 else 0.0
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert trial.verdict.decision == "void"
    assert "foreign load" in trial.verdict.why
    assert len(trial.repeats) == 3
    assert len(trial.launches) == 6


def test_one_spoiled_pair_is_measured_again_and_does_not_count(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    first = world.runs
    world.foreign = lambda run: 0.6 if run == first else 0.0
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert trial.verdict.decision == "keep"
    assert len(trial.repeats) == 1
    assert len(trial.launches) == trial.verdict.launches + 2


def test_a_slow_lone_launch_under_foreign_load_ends_nothing(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.0)
    first = world.runs
    world.foreign = lambda run: 0.8 if run == first else 0.0

    def slow_first(w: World) -> float:
        return 0.5 if w.runs == first else 1.0

    world.speed = slow_first
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert trial.verdict.reason != "regression"
    assert len(trial.repeats) == 1


def test_steady_foreign_load_voids_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    world.foreign = lambda _: 1.0
    record_baseline(world.bench)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert trial.verdict.decision == "keep"


def test_failing_requests_break_the_error_guard(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    world.errors = lambda w: 10 if w.has("--slots 4") else 0
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert (trial.verdict.decision, trial.verdict.reason) == ("revert", "guard")
    assert "error_rate" in trial.verdict.why
    assert world.bench.memory.state.findings[0].sign == "hurts"


def test_an_interrupt_leaves_a_void_trial_and_a_clean_host(tmp_path: Path) -> None:
    def speed(world: World) -> float:
        if world.has("--slots 4"):
            raise KeyboardInterrupt
        return 1.0

    world = ready(tmp_path, speed)
    with pytest.raises(KeyboardInterrupt):
        run_trial(world.bench, hypothesis(SLOTS, EDIT))
    assert world.host.files[FILE] == b"fast = False\n"
    assert world.bench.memory.state.unfinished == ()
    assert world.host.held_by == ""


def test_a_trial_that_was_cut_off_goes_on_with_its_whole_pairs(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.03, noise=0.02)
    first = world.runs

    still_to_cut = [True]

    def cut(world: World) -> float:
        if world.runs == first + 5 and still_to_cut:
            still_to_cut.clear()
            raise KeyboardInterrupt
        return 1.03 if world.has("--slots 4") else 1.0

    world.speed = cut
    with pytest.raises(KeyboardInterrupt):
        run_trial(world.bench, hypothesis(SLOTS), profile="thorough")
    cut_off = world.bench.memory.state.trials["t0001"]
    assert cut_off.verdict is not None
    assert (cut_off.verdict.reason, len(cut_off.launches)) == ("cut_off", 5)
    trial = run_trial(world.bench, hypothesis(SLOTS, name="the same by another name"), profile="thorough")
    assert trial.verdict is not None
    assert trial.launches[:4] == cut_off.launches[:4]
    assert trial.verdict.launches == len(trial.launches) > 4
    assert [launch.index for launch in trial.launches] == list(range(len(trial.launches)))


def test_another_profile_or_a_verdict_begins_anew(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0, noise=0.02)
    run_trial(world.bench, hypothesis())
    launches = world.bench.memory.state.trials["t0001"].launches
    again = run_trial(world.bench, hypothesis())
    assert not any(launch in launches for launch in again.launches)


def test_a_full_disk_ends_the_trial_and_recover_closes_it(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    append = world.store.append

    def full(event: Event, *, after: int) -> int:
        if isinstance(event, LaunchMeasured | TrialEnded):
            raise StoreError("no space left on device", hint="make room")
        return append(event, after=after)

    world.store.append = full  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        run_trial(world.bench, hypothesis(SLOTS, EDIT))
    assert world.host.files[FILE] == b"fast = False\n"
    world.store.append = append  # type: ignore[method-assign]
    with pytest.raises(Quarantined, match="never ended"):
        run_trial(world.open(), hypothesis(SLOTS))
    bench = world.open()
    assert any("cut off" in line for line in recover(bench))
    assert run_trial(bench, hypothesis(SLOTS)).verdict is not None


def test_a_keep_that_cannot_be_recorded_is_taken_back(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if b"True" in w.host.files[FILE] else 1.0)
    append = world.store.append

    def full(event: Event, *, after: int) -> int:
        if isinstance(event, TrialEnded):
            raise StoreError("no space left on device", hint="make room")
        return append(event, after=after)

    world.store.append = full  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        run_trial(world.bench, hypothesis(EDIT))
    assert world.host.files[FILE] == b"fast = False\n"


@pytest.mark.parametrize("kept", [False, True], ids=["before the journal keeps it", "before the event says so"])
def test_killed_before_the_event_of_a_keep_recover_takes_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    world = ready(tmp_path, lambda w: 1.5 if b"True" in w.host.files[FILE] else 1.0)
    really_keep = world.host.books.keep

    def full(event: object, *, after: int) -> int:
        raise StoreError("dead", hint="")

    def killed(tx: str) -> object:
        if kept and tx.endswith("-keep"):
            really_keep(tx)
        # From here on nothing reaches the journal or the store: the process is gone.
        dead.setattr(world.host.books, "revert", killed)
        dead.setattr(world.store, "append", full)
        raise SystemExit

    with monkeypatch.context() as dead:
        dead.setattr(world.host.books, "keep", killed)
        with pytest.raises(SystemExit):
            run_trial(world.bench, hypothesis(EDIT))
    bench = world.open()
    with pytest.raises(Quarantined):
        run_trial(bench, hypothesis(SLOTS))
    recover(bench)
    assert world.host.files[FILE] == b"fast = False\n"
    assert list(world.host.journal.transactions()) == []
    assert drifted(bench) == ()
    assert left_over(bench) == ()


def test_an_edit_that_does_not_apply_starts_nothing(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    launches = len(world.host.launches)
    with pytest.raises(Refused, match="occurs 0 times"):
        run_trial(world.bench, hypothesis(SLOTS, Edit(path=FILE, find="nowhere", replace="x")))
    assert len(world.host.launches) == launches
    assert world.bench.memory.state.trials == {}


def test_a_managed_file_that_somebody_edited_is_drift_and_stays(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.4 if b"True" in w.host.files[FILE] else 1.0)
    run_trial(world.bench, hypothesis(EDIT))
    world.host.files[FILE] = b"fast = True  # by hand\n"
    assert drifted(world.bench) == (FILE,)
    with pytest.raises(Drift):
        run_trial(world.bench, hypothesis(Edit(path=FILE, find="fast", replace="slow")))
    assert world.host.files[FILE] == b"fast = True  # by hand\n"


def test_a_kept_setting_is_part_of_the_known_good_state(tmp_path: Path) -> None:
    world = World(tmp_path, lambda w: 1.5 if w.host.values["thp"] == "never" else 1.0)
    world.host.values["thp"] = "madvise"
    record_baseline(world.bench)
    run_trial(world.bench, hypothesis(Setting(name="thp", value="never")))
    assert world.host.values == {"thp": "never"}
    baseline = world.bench.memory.state.baseline
    assert baseline is not None
    assert baseline.settings == {"thp": "never"}
    assert drifted(world.bench) == ()
    world.host.values["thp"] = "always"
    assert drifted(world.bench) == ("setting thp",)
    with pytest.raises(Drift, match="thp: not set as the baseline says"):
        run_trial(world.bench, hypothesis(SLOTS))
    world.host.values["thp"] = "never"
    undo(world.bench)
    assert world.host.values == {"thp": "madvise"}
    assert world.host.settings.transactions() == []


@pytest.mark.parametrize("kept", [False, True], ids=["before the journal keeps it", "before the event says so"])
def test_killed_before_the_event_of_a_keep_its_settings_are_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, kept: bool
) -> None:
    world = World(tmp_path, lambda w: 1.5 if w.host.values["thp"] == "never" else 1.0)
    world.host.values["thp"] = "madvise"
    record_baseline(world.bench)
    books = world.host.tuned
    really_keep, really_revert = books.keep, books.revert
    gone = False

    def full(event: object, *, after: int) -> int:
        raise StoreError("dead", hint="")

    def killed(tx: str) -> object:
        nonlocal gone
        gone = True
        if kept:
            really_keep(tx)
        dead.setattr(world.store, "append", full)
        raise SystemExit

    def revert(tx: str) -> object:
        if gone:
            raise SystemExit
        return really_revert(tx)

    with monkeypatch.context() as dead:
        dead.setattr(books, "keep", killed)
        dead.setattr(books, "revert", revert)
        with pytest.raises(SystemExit):
            run_trial(world.bench, hypothesis(Setting(name="thp", value="never")))
    bench = world.open()
    with pytest.raises(Quarantined, match="settings"):
        run_trial(bench, hypothesis(SLOTS))
    recover(bench)
    assert world.host.values == {"thp": "madvise"}
    assert drifted(bench) == ()
    assert left_over(bench) == ()


def test_a_setting_that_cannot_be_read_starts_nothing(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    launches = len(world.host.launches)
    with pytest.raises(Refused, match="cannot be read"):
        run_trial(world.bench, hypothesis(Setting(name="thp", value="never")))
    assert len(world.host.launches) == launches


def test_after_an_undo_what_a_later_baseline_recorded_stays_true() -> None:
    spec = LaunchSpec(argv=("x",))
    before = Baseline(version=1, spec=spec, origin=spec, files={"/a": "1", "/b": "1"}, roots={"/": "l1"})
    now = Baseline(
        version=3,
        spec=spec,
        origin=spec,
        files={"/a": "2", "/b": "3", "/c": "9"},
        originals={"/a": "1", "/c": ""},
        roots={"/": "l3"},
    )
    assert files_after_undo(now, before, {"/a", "/c"}) == {"/a": "1", "/b": "3", "/c": ""}


def test_what_comes_after_waits(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    with pytest.raises(UsageError, match="comes after first"):
        run_trial(world.bench, hypothesis(Env(name="A", value="1"), name="second", after=("first",)))
    run_trial(world.bench, hypothesis(SLOTS, name="first"))
    assert run_trial(world.bench, hypothesis(Env(name="A", value="1"), name="second", after=("first",))).verdict


def test_a_lab_without_a_baseline_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 1.0)
    with pytest.raises(UsageError, match="no baseline"):
        run_trial(world.bench, hypothesis(SLOTS))


def test_the_noise_grows_with_every_trial(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0, noise=0.02)
    before = len(world.bench.memory.state.noise)
    assert before == 4
    run_trial(world.bench, hypothesis(), profile="standard")
    trial = next(iter(world.bench.memory.state.trials.values()))
    own = sum(1 for a, b in zip(trial.launches, trial.launches[1:], strict=False) if a.arm == b.arm == "baseline")
    assert len(world.bench.memory.state.noise) == before + own


def test_a_machine_that_is_never_quiet_gets_no_baseline(tmp_path: Path) -> None:
    world = World(tmp_path, lambda _: 1.0)
    world.foreign = lambda run: float(run % 2)
    with pytest.raises(CheckFailed, match="foreign load"):
        record_baseline(world.bench)
    assert world.bench.memory.state.unfinished == ()
    assert world.bench.memory.state.baseline is None


def test_a_client_that_cannot_work_voids_with_its_reason(tmp_path: Path) -> None:
    def speed(world: World) -> float:
        if world.has("--slots 4"):
            raise LoadError("the samples cannot be written: no space left on device", hint="make room")
        return 1.0

    world = ready(tmp_path, speed)
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert "no space left" in trial.verdict.why
    assert [event.why for event in world.events(LaunchFailed) if isinstance(event, LaunchFailed)]


def test_a_second_writer_is_noticed(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    other = world.open()
    run_trial(other, hypothesis())
    with pytest.raises(Conflict):
        run_trial(world.bench, hypothesis())


def test_null_changes_are_kept_in_at_most_one_of_a_hundred_trials(tmp_path: Path) -> None:
    kept = 0
    for seed in range(100):
        world = ready(tmp_path, lambda _: 1.0, noise=0.02, seed=seed)
        verdict = run_trial(world.bench, hypothesis()).verdict
        kept += verdict is not None and verdict.decision == "keep"
    assert kept <= 1


def signed(sign: Sign) -> Hypothesis:
    return Hypothesis(name="signed", claim="it is reached", changes=ChangeSet(members=(SLOTS,)), proves=sign)


def test_a_sign_that_shows_is_one_more_proof(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    # The fake host's log names the launch.
    trial = run_trial(world.bench, signed(Sign(log="candidate started")))
    assert trial.verdict is not None
    assert trial.verdict.decision == "keep"
    proofs = next(launch.proofs for launch in trial.launches if launch.arm == "candidate")
    assert proofs[-1].evidence.endswith("-candidate started")


def test_a_sign_that_does_not_show_voids_the_trial(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    trial = run_trial(world.bench, signed(Sign(log="fused kernel ready")))
    assert trial.verdict is not None
    assert trial.verdict.decision == "void"
    assert "proves log fused kernel ready is not in force: it does not show" in trial.verdict.why


def test_a_sign_that_shows_without_the_change_is_refused_before_anything_starts(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    begun = len(world.host.launches)
    with pytest.raises(Refused, match="shows without the change, too"):
        run_trial(world.bench, signed(Sign(log=" started")))
    assert len(world.host.launches) == begun


def test_the_memory_of_the_lab_is_no_file_to_edit(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda _: 1.0)
    store = str(world.bench.folder.resolve() / "store.db")
    world.host.files[store] = b"False"
    begun = len(world.host.launches)
    with pytest.raises(Refused, match="memory of this lab"):
        run_trial(world.bench, hypothesis(Edit(path=store, find="False", replace="True")))
    assert len(world.host.launches) == begun


def test_a_baseline_that_was_cut_off_with_another_workload_is_no_history(tmp_path: Path) -> None:
    still_to_cut = [True]

    def speed(world: World) -> float:
        if world.runs == 3 and still_to_cut:
            still_to_cut.clear()
            raise KeyboardInterrupt
        return 1.0

    world = World(tmp_path, speed)
    with pytest.raises(KeyboardInterrupt):
        record_baseline(world.bench)
    config = world.bench.config
    other = msgspec.structs.replace(config, workloads=(msgspec.structs.replace(config.workloads[0], concurrency=9),))
    object.__setattr__(world.bench, "config", other)
    record_baseline(world.bench)
    state = world.bench.memory.state
    assert len(state.runs["b0001"].launches) == 3
    assert state.ledger == state.runs["b0002"].launches


def test_a_busy_host_is_said_with_the_verdict(tmp_path: Path) -> None:
    world = ready(tmp_path, lambda w: 1.5 if w.has("--slots 4") else 1.0)
    world.foreign = lambda _: 1.0
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.verdict is not None
    assert "this busy only: others used 1.00 cores" in trial.verdict.why


def test_a_taken_port_uses_up_no_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from knowngood.errors import Busy
    from knowngood.flow import trial as module

    def taken(_host: object, spec: LaunchSpec) -> None:
        raise Busy(f"somebody listens on {spec.address}:{spec.port} already", hint="stop it")

    world = ready(tmp_path, lambda _: 1.0)
    monkeypatch.setattr(module, "require_free_port", taken)
    with pytest.raises(Busy):
        run_trial(world.bench, hypothesis(SLOTS))
    assert world.bench.memory.state.trials == {}
