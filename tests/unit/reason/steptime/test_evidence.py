"""What readers found fills gaps, and never takes the place of what was given."""

import msgspec
import pytest

from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet, Flag
from knowngood.model.evidence import Arm, LaunchRecord, RunRecord
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.launch import LaunchSpec
from knowngood.model.profile import (
    EngineStats,
    Enqueued,
    KernelTotals,
    NcclLog,
    NcclTest,
    Part,
    StepProfile,
    TimedSize,
    Topology,
)
from knowngood.model.steptime import BaselineFacts, Facts, ModelFacts, ServerFacts, SpeculationFacts
from knowngood.reason.fold import LabState
from knowngood.reason.records import BaselineRun, Trial
from knowngood.reason.steptime.arithmetic import work_out
from knowngood.reason.steptime.budget import budget
from knowngood.reason.steptime.evidence import gather, with_evidence
from knowngood.reason.steptime.trial import TrialArms, arms_of, with_trial

KIMI = Facts(
    model=ModelFacts(layers=61, hidden=7168),
    speculation=SpeculationFacts(verify_ms=30, collective_ms=24, message_bytes=43008),
)
PROFILE = StepProfile(
    source="p",
    ranks=1,
    steps=10,
    bounded_by="marks",
    step_ms=40,
    parts=(Part(category="comm.allreduce", ms=20, count=122), Part(category="gemm", ms=12, count=300)),
    idle_ms=8,
)


def test_nccl_log_tells_transport_and_what_ran() -> None:
    ran = (
        Enqueued(collective="AllReduce", size=43008, algorithm="RING", protocol="SIMPLE", count=122),
        Enqueued(collective="AllReduce", size=14336, algorithm="RING", protocol="LL", count=500),
    )
    log = NcclLog(source="l", version="2.27.3", ranks=8, transports={"SHM/direct": 16, "P2P/CUMEM": 2}, enqueued=ran)
    facts, notes = with_evidence(KIMI, [log])
    assert facts.server == ServerFacts(nccl="2.27.3", transport="SHM/direct", protocol="RING SIMPLE")
    assert facts.hardware.gpus == 8
    assert "l: an all-reduce of 43008 bytes ran as RING SIMPLE" in notes


def test_what_was_given_stays() -> None:
    given = msgspec.structs.replace(KIMI, server=ServerFacts(engine="vllm", nccl="2.30.7", cuda_graph=True))
    stats = EngineStats(source="s", engine="sglang", tokens_per_verify=2.0, drafts=3, tok_s=60, cuda_graph=False)
    facts, notes = with_evidence(given, [stats, NcclLog(source="l", version="2.27.3")])
    assert (facts.server.engine, facts.server.nccl, facts.server.cuda_graph) == ("vllm", "2.30.7", True)
    assert (facts.speculation.tokens_per_verify, facts.speculation.tok_s) == (2.0, 60)
    assert notes == ("s: decode steps run without CUDA graphs",)


def test_a_rate_without_speculation_is_the_baselines() -> None:
    facts, _ = with_evidence(Facts(), [EngineStats(source="s", tok_s=82)])
    assert facts.baseline.tok_s == 82
    assert facts.speculation.tok_s is None


def test_nccl_tests_stand_beside_the_server() -> None:
    test = NcclTest(source="t", ranks=8, graphs=True, rows=(TimedSize(size=43008, us=58, bus_gb_s=1.3, wrong=1),))
    _, notes = with_evidence(KIMI, [test])
    assert notes == (
        "t: 1 elements are wrong at 43008 bytes",
        "t: 43008 bytes take 58 µs under CUDA graphs, in the server 197 µs",
    )


def test_topology_tells_the_link() -> None:
    facts, notes = with_evidence(
        Facts(), [Topology(source="t", gpus=4, links={"SYS": 4, "PIX": 2}, worst="SYS", sockets=2)]
    )
    assert (facts.hardware.link, facts.hardware.gpus) == ("pcie", 4)
    assert any("host memory" in note for note in notes)
    joined, _ = with_evidence(Facts(), [Topology(source="t", gpus=2, links={"NV18": 1}, worst="NV18")])
    assert joined.hardware.link == "nvlink"


def test_a_profile_gives_shares_and_never_lengths() -> None:
    facts, _ = with_evidence(Facts(baseline=BaselineFacts(tok_s=50)), [PROFILE])
    assert facts.baseline.collective_ms == pytest.approx(10)
    assert facts.baseline.idle_share == pytest.approx(0.2)
    drawn = budget(facts, work_out(facts), [PROFILE])
    assert drawn is not None
    assert drawn.ms == pytest.approx(20)
    assert sum(line.ms for line in drawn.lines) == pytest.approx(20)
    alone, _ = with_evidence(Facts(), [PROFILE])
    assert alone == Facts()


def test_sums_of_kernels_are_a_profile_without_idle_time() -> None:
    facts, profiles, _ = gather(KIMI, [KernelTotals(source="k", parts=PROFILE.parts)])
    assert [profile.step_ms for profile in profiles] == [32]
    assert facts.speculation.collective_ms == 24


def launch(arm: Arm, **metrics: float) -> LaunchRecord:
    run = RunRecord(workload="w", metrics=metrics)
    return LaunchRecord(arm=arm, index=0, started_at=0, ready_s=1, runs=(run,), value=1.0)


PLAIN = LaunchSpec(argv=("serve",))
DRAFTS = Flag(flag="--speculative-algorithm", value="EAGLE3")


def state(*launches: LaunchRecord, members: tuple[Flag, ...] = (DRAFTS,)) -> tuple[LabState, Trial]:
    hypothesis = Hypothesis(name="h", claim="c", changes=ChangeSet(members=members))
    trial = Trial(id="t0001", hypothesis=hypothesis, baseline=1, profile="quick", started_at=0, launches=launches)
    known = Baseline(version=1, spec=PLAIN, origin=PLAIN)
    run = BaselineRun(
        id="b0001", baseline=known, planned=2, started_at=0, launches=(launch("baseline", tpot_mean_ms=10.0),)
    )
    return LabState(baseline=known, baselines=(known,), runs={"b0001": run}, trials={"t0001": trial}), trial


def arms(*launches: LaunchRecord, concurrency: int = 1, members: tuple[Flag, ...] = (DRAFTS,)) -> TrialArms:
    known, trial = state(*launches, members=members)
    return arms_of(known, trial, aliases={}, concurrency=concurrency)


def test_the_arm_that_speculates_is_known_by_its_flags() -> None:
    measured = [("baseline", 12.5), ("candidate", 20.0), ("baseline", 12.0)]
    facts, notes = with_trial(Facts(), arms(*(launch(arm, tpot_mean_ms=ms) for arm, ms in measured)))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    assert facts.baseline.tok_s == pytest.approx((1000 / 12.5 + 1000 / 12) / 2)
    assert facts.speculation.tok_s == pytest.approx(50)
    assert notes[1] == "t0001: the candidate speculates, 50.0 tok/s"


def test_a_trial_that_ended_after_its_first_launch_borrows_the_baselines() -> None:
    facts, notes = with_trial(Facts(), arms(launch("candidate", tpot_mean_ms=25.0), members=()))
    assert facts.baseline.tok_s == pytest.approx(100)
    assert notes[1] == "t0001: the candidate does not speculate, 40.0 tok/s; not used, another number is known"


def test_a_rate_over_many_requests_is_no_rate_of_one() -> None:
    one, _ = with_trial(Facts(), arms(launch("baseline", output_tok_s=82.0)))
    assert one.baseline.tok_s == 82
    many, notes = with_trial(Facts(), arms(launch("baseline", output_tok_s=82.0), concurrency=8))
    assert many.baseline.tok_s is None
    assert "the baseline has no rate of a single request" in notes[0]
