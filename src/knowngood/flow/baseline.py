"""Measuring the known-good state: A/A launches, whose differences are the noise floor."""

from collections.abc import Sequence

from knowngood.errors import CheckFailed
from knowngood.flow.bench import Bench
from knowngood.flow.facts import host_facts, server_facts
from knowngood.flow.launch import Arms, Slot, measure_launch
from knowngood.flow.pairs import MAKE_QUIET, REPEATS
from knowngood.flow.preflight import lab_prefix, require_known_good, workload_digest
from knowngood.flow.server import Server
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet
from knowngood.model.events import BaselineRecorded, BaselineStarted, LaunchMeasured
from knowngood.model.evidence import LaunchRecord
from knowngood.reason.load import foreign_load, is_uneven
from knowngood.reason.noise import noise_from_launches


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
        return measure_baseline(bench)


def measure_baseline(bench: Bench) -> Baseline:
    """Measure pairs of equal launches until there are as many as wanted; the lease is held by the caller."""
    state = bench.memory.state
    baseline = next_baseline(bench)
    run = f"b{len(state.runs) + 1:04d}"
    pairs = bench.config.verdict.baseline_pairs
    bench.memory.record(BaselineStarted(at=bench.now(), run=run, baseline=baseline, launches=2 * pairs))
    bench.show.begin(f"baseline: {2 * pairs} launches of the known-good server", expected_s=0.0)
    arms = Arms(baseline=baseline.spec, candidate=baseline.spec, changes=ChangeSet())
    facts: dict[str, str] = host_facts(bench.host)

    def on_ready(server: Server) -> None:
        observed = server.observe(bench, {})
        facts.update(server_facts(bench.config, observed.pages, observed.log))

    accepted: list[LaunchRecord] = []
    index = 0
    for pair in range(pairs):
        for attempt in range(REPEATS + 1):
            launches: list[LaunchRecord] = []
            for _ in range(2):
                slot = Slot(lab=lab_prefix(bench), run=run, arm="baseline", index=index, pair=pair, attempt=attempt)
                launch = measure_launch(bench, arms, slot, again=lambda _: False, on_ready=on_ready)
                bench.memory.record(LaunchMeasured(at=bench.now(), run=run, launch=launch))
                launches.append(launch)
                index += 1
                bench.show.note(f"launch {index}: {bench.config.objective.metric} {launch.value:.4g}")
            if not is_uneven(launches[0], launches[1], limit=bench.config.verdict.foreign_cores):
                accepted += launches
                break
            bench.show.note(f"pair {pair + 1} is repeated: {foreign_load(launches)}")
        else:
            raise CheckFailed(
                f"foreign load differed in pair {pair + 1} three times: {foreign_load(launches)}",
                hint=MAKE_QUIET,
            )
        bench.show.advance(f"pair {pair + 1} of {pairs}", (pair + 1) / pairs)
    return conclude(bench, run, baseline, facts, accepted)


def conclude(
    bench: Bench, run: str, baseline: Baseline, facts: dict[str, str], launches: Sequence[LaunchRecord]
) -> Baseline:
    """Record what was measured as the known-good state."""
    measured = Baseline(
        version=baseline.version,
        spec=baseline.spec,
        origin=baseline.origin,
        files=baseline.files,
        originals=baseline.originals,
        facts=facts,
        transactions=baseline.transactions,
        kept=baseline.kept,
        workloads=baseline.workloads,
    )
    noise = noise_from_launches([launch.value for launch in launches])
    metric = bench.config.objective.metric
    bench.memory.record(BaselineRecorded(at=bench.now(), run=run, baseline=measured, noise={metric: noise}))
    return measured


def next_baseline(bench: Bench) -> Baseline:
    """What is to be measured: the known-good state as it stands, or a new start if the lab file has changed."""
    old = bench.memory.state.baseline
    origin = bench.config.spec
    if old is not None and old.origin == origin:
        return Baseline(
            version=old.version + 1,
            spec=old.spec,
            origin=origin,
            files=old.files,
            originals=old.originals,
            transactions=old.transactions,
            kept=old.kept,
            workloads=workload_digest(bench),
        )
    return Baseline(
        version=old.version + 1 if old else 1,
        spec=origin,
        origin=origin,
        files=old.files if old else {},
        originals=old.originals if old else {},
        transactions=old.transactions if old else (),
        workloads=workload_digest(bench),
    )
