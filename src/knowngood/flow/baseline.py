"""Measuring the known-good state: A/A launches, whose differences are the noise floor."""

import contextlib

import msgspec

from knowngood.errors import KnowngoodError
from knowngood.flow.bench import Bench
from knowngood.flow.conditions import measure_even
from knowngood.flow.facts import host_facts, server_facts
from knowngood.flow.launch import Slot, measure_launch
from knowngood.flow.managed import take_in, take_in_files
from knowngood.flow.preflight import Arms, lab_prefix, require_known_good, workload_digest
from knowngood.flow.server import Server
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet
from knowngood.model.events import BaselineFailed, BaselineRecorded, BaselineStarted, LaunchMeasured
from knowngood.model.evidence import LaunchRecord
from knowngood.reason.conditions import watched
from knowngood.reason.noise import noise_from_launches
from knowngood.reason.profile import find_profile


def record_baseline(bench: Bench) -> Baseline:
    """Measure the known-good state and record it as the baseline.

    If the lab file describes the server as it did before, the state measured is the one reached by the keeps so far;
    otherwise it is what the lab file says now.

    Args:
        bench: The lab's tools.

    Returns:
        The new baseline.

    Raises:
        LaunchError: The server did not come up.
        CheckFailed: The machine is too unsteady to be measured.
    """
    with bench.host.lease(purpose=f"baseline of {bench.config.root}"):
        require_known_good(bench)
        bench.load.require(bench.config.workloads)
        return measure_baseline(bench)


def measure_baseline(bench: Bench) -> Baseline:
    """Measure pairs of equal launches until there are as many as wanted; the lease is held by the caller."""
    find_profile(bench.config.verdict.profile)
    baseline = next_baseline(bench)
    run = f"b{len(bench.memory.state.runs) + 1:04d}"
    pairs = bench.config.verdict.baseline_pairs
    bench.memory.record(BaselineStarted(at=bench.now(), run=run, baseline=baseline, launches=2 * pairs))
    bench.show.begin(f"baseline: {2 * pairs} launches of the known-good server", expected_s=0.0)
    repetition = Repetition(bench, run, baseline)
    try:
        for pair in range(pairs):
            repetition.measure_pair(pair)
            bench.show.advance(f"pair {pair + 1} of {pairs}", (pair + 1) / pairs)
    except BaseException as error:
        with contextlib.suppress(KnowngoodError):
            why = str(error) or type(error).__name__
            bench.memory.record(BaselineFailed(at=bench.now(), run=run, why=why))
        raise
    measured = msgspec.structs.replace(baseline, facts=repetition.facts)
    noise = noise_from_launches([launch.value for launch in repetition.accepted])
    metric = bench.config.objective.metric
    bench.memory.record(BaselineRecorded(at=bench.now(), run=run, baseline=measured, noise={metric: noise}))
    return measured


class Repetition:
    """Launches of one and the same thing.

    Attributes:
        accepted: Launches of whole pairs that count.
        facts: What is known of host and server.
    """

    def __init__(self, bench: Bench, run: str, baseline: Baseline) -> None:
        self.bench = bench
        self.run = run
        self.arms = Arms(baseline=baseline.spec, candidate=baseline.spec, changes=ChangeSet())
        self.facts = host_facts(bench.host)
        self.accepted: list[LaunchRecord] = []
        self.index = 0

    def measure_pair(self, pair: int) -> None:
        """Measure two launches; again, if the host was not the same for both.

        Raises:
            CheckFailed: It stayed uneven.
        """
        self.accepted += measure_even(
            lambda attempt: [self.measure_one(pair, attempt) for _ in range(2)],
            watched(self.bench.config.host_limits),
            pair=pair,
            on_spoiled=lambda why: self.bench.show.note(f"pair {pair + 1} does not count: {why}"),
        )

    def measure_one(self, pair: int, attempt: int) -> LaunchRecord:
        """Measure one launch and record it."""
        lab = lab_prefix(self.bench)
        slot = Slot(lab=lab, run=self.run, arm="baseline", index=self.index, pair=pair, attempt=attempt)
        launch = measure_launch(self.bench, self.arms, slot, again=lambda _: False, on_measured=self.learn)
        self.bench.memory.record(LaunchMeasured(at=self.bench.now(), run=self.run, launch=launch))
        self.index += 1
        self.bench.show.note(f"launch {self.index}: {self.bench.config.objective.metric} {launch.value:.4g}")
        return launch

    def learn(self, server: Server, _launch: LaunchRecord) -> None:
        """Read the facts that only a running server shows."""
        observed = server.observe(self.bench)
        self.facts.update(server_facts(self.bench.config, self.bench.engine.version(observed.pages, observed.log)))
        if observed.inside.packages:
            self.facts["packages"] = observed.inside.packages


def next_baseline(bench: Bench) -> Baseline:
    """What is to be measured: the known-good state as it stands, or a new start if the lab file has changed."""
    old = bench.memory.state.baseline
    files = take_in_files(bench, old.files) if old else {}
    roots = take_in(bench)
    origin = bench.config.spec
    if old is not None and old.origin == origin:
        return Baseline(
            version=old.version + 1,
            spec=old.spec,
            origin=origin,
            files=files,
            originals=old.originals,
            roots=roots,
            transactions=old.transactions,
            settings=old.settings,
            setting_transactions=old.setting_transactions,
            pins=old.pins,
            kept=old.kept,
            workloads=workload_digest(bench),
        )
    return Baseline(
        version=old.version + 1 if old else 1,
        spec=origin,
        origin=origin,
        files=files,
        roots=roots,
        originals=old.originals if old else {},
        transactions=old.transactions if old else (),
        settings=old.settings if old else {},
        setting_transactions=old.setting_transactions if old else (),
        workloads=workload_digest(bench),
    )
