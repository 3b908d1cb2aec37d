"""Guards and the host guard in the flow, over fakes."""

import dataclasses
import math
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from tests.unit.flow.world import SLOTS, World, hypothesis

from knowngood.config.lab import AccuracyTable, HostGuardTable, LabConfig
from knowngood.errors import CheckFailed, Refused
from knowngood.flow.baseline import record_baseline
from knowngood.flow.launch import Slot, measure_launch
from knowngood.flow.preflight import Arms
from knowngood.flow.trial import run_trial
from knowngood.flow.window import Window, risen
from knowngood.model.change import ChangeSet, Setting
from knowngood.model.events import AccuracyChecked, Event, LaunchMeasured
from knowngood.model.evidence import CpuReading, RunRecord, Surroundings
from knowngood.model.launch import LaunchSpec
from knowngood.model.workload import Workload
from knowngood.reason.records import Trial
from knowngood.testing.fakes import FakeEngine, FakeProcess

KERNEL = "/proc/sys/kernel/osrelease"


Metrics = Callable[["Guarded"], dict[str, float]]


class Guarded(World):
    """A world whose runs have further metrics, and whose lab file has further tables."""

    def __init__(
        self,
        tmp_path: Path,
        metrics: Metrics = lambda _: {},
        *,
        speed: Callable[[World], float] = lambda w: 1.5 if w.has("--slots 4") else 1.0,
        **tables: object,
    ) -> None:
        self.metrics: Metrics = metrics
        self.tables = tables
        super().__init__(tmp_path, speed)

    def config(self) -> LabConfig:
        return msgspec.structs.replace(super().config(), **self.tables)

    def measure(self, workload: Workload) -> RunRecord:
        run = super().measure(workload)
        return msgspec.structs.replace(run, metrics={**run.metrics, **self.metrics(self)})

    @property
    def is_candidate(self) -> bool:
        return self.has("--slots 4")

    def try_slots(self) -> Trial:
        record_baseline(self.bench)
        return run_trial(self.bench, hypothesis(SLOTS))


def verdict_of(trial: Trial) -> tuple[str, str, str]:
    assert trial.verdict is not None
    return trial.verdict.decision, trial.verdict.reason, trial.verdict.why


# Memory ---------------------------------------------------------------------------------------------------------------


def grows(share: float) -> Callable[[LaunchSpec], float]:
    return lambda spec: 300.0 * (1 + share if "4" in spec.argv else 1.0)


def test_a_candidate_that_takes_more_memory_is_reverted_after_one_launch_of_each_arm(tmp_path: Path) -> None:
    world = Guarded(tmp_path)
    world.host.rss_mb = grows(0.1)
    trial = world.try_slots()
    decision, reason, why = verdict_of(trial)
    assert (decision, reason) == ("revert", "guard")
    assert "server memory: 330 MB, 300 MB on the baseline: +10.0%" in why
    assert len(trial.launches) == 2


def test_memory_within_its_limit_keeps(tmp_path: Path) -> None:
    for limit, growth in ((0.02, 0.01), (0.25, 0.1), (None, 0.8)):
        world = Guarded(tmp_path, memory=limit)
        world.host.rss_mb = grows(growth)
        assert verdict_of(world.try_slots())[0] == "keep"


def test_memory_of_accelerators_is_guarded_too(tmp_path: Path) -> None:
    class OnDevice(Guarded):
        def measure(self, workload: Workload) -> RunRecord:
            return msgspec.structs.replace(super().measure(workload), gpu_mb=9000.0 if self.is_candidate else 8000.0)

    trial = OnDevice(tmp_path).try_slots()
    decision, reason, why = verdict_of(trial)
    assert (decision, reason) == ("revert", "guard")
    assert "accelerator memory: 9,000 MB" in why
    assert trial.launches[0].gpu_mb == 9000


# Goodput --------------------------------------------------------------------------------------------------------------


def test_goodput_that_falls_to_nothing_breaks_its_guard(tmp_path: Path) -> None:
    world = Guarded(
        tmp_path, lambda w: {"goodput_s": 0.0 if w.is_candidate else 4.0}, guards={"error_rate": 0.0, "goodput_s": 0.05}
    )
    decision, reason, why = verdict_of(world.try_slots())
    assert (decision, reason) == ("revert", "guard")
    assert "goodput_s: it fell to nothing" in why


# Host guard -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("swap_mb", 400.0, "candidate 400 MB swapped"),
        ("cpu_throttles", 12.0, "CPU slowed by heat 12 times"),
        ("gpu_slowed", 1.0, "accelerators slowed"),
        ("foreign_processes", 1.0, "processes of others on accelerators"),
        ("gpu_limit_w", 400.0, "limited to 400 W"),
    ],
)
def test_a_condition_that_stays_with_one_arm_voids_the_trial(
    tmp_path: Path, name: str, value: float, words: str
) -> None:
    usual = 700.0 if name == "gpu_limit_w" else 0.0
    trial = Guarded(tmp_path, lambda w: {name: value if w.is_candidate else usual}).try_slots()
    decision, _, why = verdict_of(trial)
    assert decision == "void"
    assert words in why
    assert "host_guard" in why
    assert (len(trial.launches), len(trial.repeats)) == (6, 3)
    assert words.removeprefix("candidate ") in trial.repeats[0].why


def test_a_condition_that_is_the_same_for_both_arms_voids_nothing(tmp_path: Path) -> None:
    steady = {"swap_mb": 400.0, "cpu_throttles": 12.0, "gpu_slowed": 1.0, "foreign_processes": 2.0}
    assert verdict_of(Guarded(tmp_path, lambda _: steady).try_slots())[0] == "keep"


def test_a_condition_that_passes_costs_one_pair(tmp_path: Path) -> None:
    world = Guarded(tmp_path)
    record_baseline(world.bench)
    first = world.runs
    world.metrics = lambda w: {"swap_mb": 400.0 if w.runs == first + 1 else 0.0}
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert verdict_of(trial)[0] == "keep"
    assert len(trial.repeats) == 1


def test_a_spoiled_launch_is_not_in_the_ledger(tmp_path: Path) -> None:
    world = Guarded(tmp_path, speed=lambda _: 1.0)
    record_baseline(world.bench)
    first = world.runs
    world.metrics = lambda w: {"swap_mb": 400.0 if w.runs == first + 2 else 0.0}
    trial = run_trial(world.bench, hypothesis(SLOTS), profile="thorough")
    assert len(trial.repeats) == 1
    spoiled = [launch for launch in trial.launches if launch.pair == 0 and launch.attempt == 0]
    assert [launch.arm for launch in spoiled] == ["candidate", "baseline"]
    assert not any(launch in spoiled for launch in world.bench.memory.state.ledger)


def test_a_limit_can_be_lifted(tmp_path: Path) -> None:
    loose = HostGuardTable(swap_mb=math.inf)
    world = Guarded(tmp_path, lambda w: {"swap_mb": 900.0 if w.is_candidate else 0.0}, host_guard=loose)
    assert verdict_of(world.try_slots())[0] == "keep"


def test_a_setting_that_is_tried_may_change_limits(tmp_path: Path) -> None:
    world = Guarded(
        tmp_path,
        lambda w: {"gpu_limit_w": float(w.host.values["watts"])},
        speed=lambda w: 1.5 if w.host.values["watts"] == "700" else 1.0,
    )
    world.host.values["watts"] = "400"
    record_baseline(world.bench)
    trial = run_trial(world.bench, hypothesis(Setting(name="watts", value="700")))
    assert verdict_of(trial)[0] == "keep"


def test_a_baseline_is_not_measured_on_a_host_that_changes_sides(tmp_path: Path) -> None:
    world = Guarded(tmp_path, lambda w: {"cpu_throttles": 50.0 * (w.runs % 2)})
    with pytest.raises(CheckFailed, match="slowed by heat"):
        record_baseline(world.bench)
    assert world.bench.memory.state.baseline is None


def test_another_kernel_is_refused_before_anything_starts(tmp_path: Path) -> None:
    world = Guarded(tmp_path)
    world.host.files[KERNEL] = b"6.1.0-25-amd64\n"
    record_baseline(world.bench)
    launches = len(world.host.launches)
    world.host.files[KERNEL] = b"6.1.0-26-amd64\n"
    with pytest.raises(Refused, match=r"kernel changed since the baseline: 6\.1\.0-25-amd64 became 6\.1\.0-26-amd64"):
        run_trial(world.bench, hypothesis(SLOTS))
    assert len(world.host.launches) == launches
    record_baseline(world.bench)
    assert verdict_of(run_trial(world.bench, hypothesis(SLOTS)))[0] == "keep"


def test_another_driver_is_refused_too(tmp_path: Path) -> None:
    world = Guarded(tmp_path)
    world.host.files["/sys/module/nvidia/version"] = b"575.57.08\n"
    record_baseline(world.bench)
    world.host.files["/sys/module/nvidia/version"] = b"580.65.06\n"
    with pytest.raises(Refused, match="NVIDIA's driver changed since the baseline"):
        run_trial(world.bench, hypothesis(SLOTS))


def test_packages_that_changed_under_the_baseline_void_the_trial(tmp_path: Path) -> None:
    world = Guarded(tmp_path)
    world.host.packages = lambda _: "58 distributions, 3f2a9c810000"
    record_baseline(world.bench)
    assert world.bench.memory.state.baseline is not None
    assert world.bench.memory.state.baseline.facts["packages"] == "58 distributions, 3f2a9c810000"
    world.host.packages = lambda _: "59 distributions, aaaaaaaaaaaa"
    trial = run_trial(world.bench, hypothesis(SLOTS))
    decision, _, why = verdict_of(trial)
    assert decision == "void"
    assert "packages changed since the baseline" in why
    assert "knowngood baseline" in why


# The window -----------------------------------------------------------------------------------------------------------


class Watched(FakeProcess):
    """A process around which something goes on."""

    def __init__(self, counts: list[dict[str, float]], around: list[Surroundings]) -> None:
        super().__init__(LaunchSpec(argv=("server",)))
        self.readings = [
            CpuReading(at=10.0 * at, busy_s=6.0 * at, server_s=5.0 * at, rss_mb=300.0 + at, counts=one)
            for at, one in enumerate(counts)
        ]
        self.around = around

    def surroundings(self) -> Surroundings:
        return self.around.pop(0)


def settle(counts: list[dict[str, float]], around: list[Surroundings]) -> RunRecord:
    window = Window(process=Watched(counts, around), age=lambda: 42.0, is_here=False, has_client=False)
    window.open()
    window.mark()
    window.mark()
    return window.settle(RunRecord(workload="w", metrics={"output_tok_s": 9.0}, requests=10, seconds=10.0))


def test_a_run_gains_what_the_host_showed() -> None:
    stranger = "process 42 (train.py) on an accelerator"
    run = settle(
        [
            {"swap_mb": 100.0, "cpu_throttles": 3.0, "memory_wait_s": 1.0, "steal_s": 7.0, "gone": 1.0},
            {"swap_mb": 350.0, "cpu_throttles": 3.0, "memory_wait_s": 3.0, "steal_s": 8.0, "new": 1.0},
        ],
        [
            Surroundings(accelerators=2, levels={"gpu_slow_s": 1.0}, gpu_mb=8000.0, strangers=(stranger,)),
            Surroundings(
                accelerators=2,
                levels={"gpu_slow_s": 3.5, "gpu_mhz": 1410.0, "cpu_celsius": 61.0},
                slowed=("accelerator 1: hardware thermal slowdown",),
                gpu_mb=8200.0,
            ),
        ],
    )
    assert run.metrics == {
        "output_tok_s": 9.0,
        "swap_mb": 250.0,
        "cpu_throttles": 0.0,
        "memory_wait": 0.2,
        "steal_cores": 0.1,
        "gpu_mhz": 1410.0,
        "cpu_celsius": 61.0,
        "gpu_slowed": 1.0,
        "foreign_processes": 1.0,
        "server_cpu_s_per_request": 0.5,
        "foreign_cores": pytest.approx(0.1),
        "server_age_s": 42.0,
    }
    assert run.notes == (stranger, "accelerator 1: hardware thermal slowdown")
    # Memory of the window's opening: what is cached of finished requests grows with a server's speed.
    assert (run.rss_mb, run.gpu_mb) == (300.0, 8200.0)


def test_time_lost_within_the_window_counts_though_it_is_over() -> None:
    around = [Surroundings(accelerators=1, levels={"gpu_slow_s": at}) for at in (1.0, 1.2)]
    assert settle([{}, {}], around).metrics["gpu_slowed"] == 1.0


def test_a_machine_without_accelerators_says_nothing_of_them() -> None:
    run = settle([{}, {}], [Surroundings(), Surroundings()])
    assert run.metrics.keys() == {
        "output_tok_s", "server_cpu_s_per_request", "foreign_cores", "server_age_s",
    }  # fmt: skip
    assert (run.notes, run.gpu_mb) == ((), None)


def test_a_counter_that_ran_backwards_counted_nothing() -> None:
    assert risen({"swap_mb": 9.0}, {"swap_mb": 2.0}, 1.0) == {"swap_mb": 0.0}


# Speculation ----------------------------------------------------------------------------------------------------------


def speculating(tmp_path: Path, candidate: float | None, baseline: float | None) -> Trial:
    world = Guarded(tmp_path)
    engine = FakeEngine()
    engine.accepted = lambda log: candidate if "candidate" in log else baseline
    world.bench = dataclasses.replace(world.bench, engine=engine)
    return world.try_slots()


def test_speculation_that_collapses_is_flagged_in_the_verdict(tmp_path: Path) -> None:
    trial = speculating(tmp_path, 1.04, 2.9)
    decision, _, why = verdict_of(trial)
    assert decision == "keep"
    assert "possible corruption: the acceptance length fell from 2.90 to 1.04" in why
    assert [launch.acceptance_length for launch in trial.launches[:2]] == [1.04, 2.9]


def test_speculation_as_good_as_before_is_not_flagged(tmp_path: Path) -> None:
    assert "corruption" not in verdict_of(speculating(tmp_path, 2.8, 2.9))[2]
    assert "corruption" not in verdict_of(speculating(tmp_path, None, None))[2]


# Accuracy -------------------------------------------------------------------------------------------------------------

EXAM = """\
import json, os, sys
slots = open(sys.argv[1]).read()
assert os.environ["KNOWNGOOD_URL"] == sys.argv[2], sys.argv
wrong = int(sys.argv[3]) if "4" in slots else 0
print("42 of 500 done")
for item in range(500):
    print(json.dumps({"item": item, "right": item >= wrong}))
"""


class Examined(Guarded):
    """A world with an accuracy command that looks at the server's arguments instead of at its answers."""

    def __init__(self, tmp_path: Path, wrong: int, *, mode: str = "accuracy", script: str = EXAM, **keys: str) -> None:
        (tmp_path / "exam.py").write_text(script)
        command = (sys.executable, "exam.py", str(tmp_path / "argv"), "{url}", str(wrong))
        super().__init__(tmp_path, answers_mode=mode, accuracy=AccuracyTable(command=command, **keys))

    def measure(self, workload: Workload) -> RunRecord:
        (self.tmp / "argv").write_text(" ".join(self.argv))
        return super().measure(workload)


def test_accuracy_that_holds_keeps_and_is_stored(tmp_path: Path) -> None:
    world = Examined(tmp_path, wrong=0)
    trial = world.try_slots()
    assert verdict_of(trial)[0] == "keep"
    assert trial.accuracy is not None
    assert (trial.accuracy.items, trial.accuracy.lost, trial.accuracy.gained) == (500, 0, 0)
    kept = world.bench.artifacts.path(trial.accuracy.output).read_bytes()
    assert b'{"item": 499, "right": true}' in kept
    assert len(world.events(AccuracyChecked)) == 1


def test_accuracy_that_is_lost_reverts_after_the_first_pair(tmp_path: Path) -> None:
    trial = Examined(tmp_path, wrong=30).try_slots()
    decision, reason, why = verdict_of(trial)
    assert (decision, reason) == ("revert", "guard")
    assert "guard accuracy: 470 of 500 items right, 500 on the baseline: -6.0 points" in why
    assert len(trial.launches) == 2


@pytest.mark.parametrize(("mode", "decision"), [("accuracy", "revert"), ("off", "keep")])
def test_accuracy_that_is_not_shown_reverts_only_where_it_is_the_guard_of_correctness(
    tmp_path: Path, mode: str, decision: str
) -> None:
    trial = Examined(tmp_path, wrong=5, mode=mode).try_slots()
    found, _, why = verdict_of(trial)
    assert found == decision
    assert "accuracy" in why
    assert "items decide in 80 % of cases" in why


def test_accuracy_can_be_read_from_a_file(tmp_path: Path) -> None:
    script = (
        "import json, sys\nwrong = int(sys.argv[3])\n"
        'json.dump([{"item": n, "right": 1} for n in range(500)], open("said.json", "w"))\n'
    )
    trial = Examined(tmp_path, wrong=0, script=script, results="said.json").try_slots()
    assert verdict_of(trial)[0] == "keep"


@pytest.mark.parametrize(
    ("script", "keys", "words"),
    [
        ('raise SystemExit("no such task: gsm9k")', {}, "no such task: gsm9k"),
        ("pass", {}, "told of no item"),
        ("pass", {"results": "nowhere.json"}, "left no nowhere.json"),
        ("import time; time.sleep(60)", {"timeout": "1s"}, "did not end within 1 s"),
        (
            'import json, random; print(json.dumps({"item": random.random(), "right": True}))',
            {},
            "different items",
        ),
    ],
)
def test_a_command_that_cannot_be_used_voids_and_says_why(
    tmp_path: Path, script: str, keys: dict[str, str], words: str
) -> None:
    trial = Examined(tmp_path, wrong=0, script=script, **keys).try_slots()
    decision, _, why = verdict_of(trial)
    assert decision == "void"
    assert words in why


def test_both_arms_are_measured_before_they_are_asked(tmp_path: Path) -> None:
    """What is asked between readiness and the measurement would make one arm older than the other."""
    world = Guarded(tmp_path)
    order: list[str] = []
    world.metrics = lambda w: order.append("measured") or {}  # type: ignore[func-returns-value]
    spec = LaunchSpec(argv=("server",))
    measure_launch(
        world.bench,
        Arms(baseline=spec, candidate=spec, changes=ChangeSet()),
        Slot(lab="l-", run="t", arm="baseline", index=0, pair=0),
        again=lambda _: False,
        on_measured=lambda _server, _launch: order.append("asked"),
    )
    assert order == ["measured", "asked"]


def test_a_trial_that_is_gone_on_with_is_examined_again_before_it_is_kept(tmp_path: Path) -> None:
    world = Examined(tmp_path, wrong=0)
    record_baseline(world.bench)
    record = world.bench.memory.record

    def cut(event: Event) -> None:
        if isinstance(event, LaunchMeasured) and event.launch.index == 2:
            raise KeyboardInterrupt
        record(event)

    world.bench.memory.record = cut  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        run_trial(world.bench, hypothesis(SLOTS))
    world.bench.memory.record = record  # type: ignore[method-assign]
    (tmp_path / "exam.py").write_text(EXAM.replace("int(sys.argv[3])", "40"))
    trial = run_trial(world.bench, hypothesis(SLOTS))
    assert trial.accuracy is not None
    assert trial.accuracy.lost == 40
    assert verdict_of(trial)[:2] == ("revert", "guard")
