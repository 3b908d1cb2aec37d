"""Launching some items of a change set together, and remembering what came out."""

import math
from collections.abc import Sequence

import msgspec

from knowngood.errors import CheckFailed, KnowngoodError, LaunchError, LoadError, NotReady, Refused
from knowngood.flow.bench import Bench
from knowngood.flow.launch import Again, Slot, measure_launch
from knowngood.flow.preflight import Arms, lab_prefix, plan_trial
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.events import SubsetLaunched
from knowngood.model.evidence import LaunchRecord
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Outcome, Subset
from knowngood.reason.blame import blame
from knowngood.reason.conditions import unlike, watched
from knowngood.reason.items import Item, signature, subset
from knowngood.reason.records import Isolation

HOST_CAUSES = frozenset(
    {
        "network_port_or_interface",
        "gpu_oom_load",
        "gpu_oom_capture",
        "gpu_oom_runtime",
        "host_oom_kill",
        "host_limits",
    }
)
"""Causes that may lie in what others left on the host: such a launch is repeated once."""
ATTEMPTS = 2
KNOWN = "isolation"
"""Reason for launching what is a known dead end: that is what is taken apart."""


class Probe:
    """Launches subsets of one isolation.

    Args:
        bench: The lab's tools.
        name: Of the isolation.
        hypothesis: What is taken apart.
        items: What is launched or left out as a whole.
        baseline: What it is taken apart on.
    """

    def __init__(
        self, bench: Bench, name: str, hypothesis: Hypothesis, items: Sequence[Item], baseline: Baseline
    ) -> None:
        self.bench = bench
        self.name = name
        self.hypothesis = hypothesis
        self.items = items
        self.baseline = baseline

    @property
    def isolation(self) -> Isolation:
        """What is known of it."""
        return self.bench.memory.state.isolations[self.name]

    @property
    def counted(self) -> tuple[SubsetLaunched, ...]:
        """Launches that count, in order."""
        return tuple(launch for launch in self.isolation.launches if launch.counts)

    @property
    def whole(self) -> Subset:
        """All items."""
        return frozenset(range(len(self.items)))

    @property
    def sought(self) -> str:
        """The failure that is looked for; empty before the whole set was launched."""
        first = self.seen(self.whole)
        return self.isolation.signature or (first.signature if first else "")

    def seen(self, chosen: Subset) -> SubsetLaunched | None:
        """The launch of these very items that counts; None if there was none."""
        return next((one for one in self.counted if frozenset(one.subset) == chosen), None)

    def part(self, chosen: Subset) -> ChangeSet:
        """The change set that holds some items only."""
        return subset(self.hypothesis.changes, [self.items[number].pieces for number in sorted(chosen)])

    def launch(self, chosen: Subset, *, again: Again, steady: bool = False) -> SubsetLaunched:
        """Launch items together, and once more if host or load may be to blame for what came out.

        Args:
            chosen: Numbers of the items.
            again: Whether the objective must be run once more in the launch.
            steady: Whether its value matters: it must not have seen other foreign load than the launches before.

        Returns:
            The launch that counts; it is recorded.
        """
        for attempt in range(ATTEMPTS):
            done, to_blame = self.launch_once(chosen, again=again, steady=steady)
            counts = not to_blame or attempt == ATTEMPTS - 1
            self.bench.memory.record(msgspec.structs.replace(done, counts=counts))
            self.bench.show.note(f"launch {done.index + 1}: {self.tell(done)}")
            if counts:
                break
            self.bench.show.note(f"once more: {to_blame}")
        return self.counted[-1]

    def tell(self, done: SubsetLaunched) -> str:
        """A launch in one line."""
        size = f"{len(done.subset)} of {len(self.items)} items"
        if done.launch is not None:
            return f"{size}: {self.bench.config.objective.metric} {done.launch.value:.4g}"
        return f"{size}: {'fails in another way' if done.outcome == 'unresolved' else 'fails'}: {done.why}"

    def launch_once(self, chosen: Subset, *, again: Again, steady: bool) -> tuple[SubsetLaunched, str]:
        """Launch items together.

        Returns:
            What came out, and why host or load may be to blame for it; empty if they are not.
        """
        index = len(self.isolation.launches)
        done = SubsetLaunched(
            at=self.bench.now(), isolation=self.name, index=index, subset=tuple(sorted(chosen)), outcome="passed"
        )
        changes = self.part(chosen)
        try:
            arms = self.arms(changes)
        except Refused as error:
            why = f"not launched: {error.message}"
            return msgspec.structs.replace(done, outcome="unresolved", signature=signature(why, None), why=why), ""
        slot = Slot(lab=lab_prefix(self.bench), run=self.name, arm="candidate", index=index, pair=0)
        try:
            launch = measure_launch(self.bench, arms, slot, again=again, on_measured=lambda _server, _launch: None)
        except (LaunchError, CheckFailed, LoadError) as error:
            return self.failed(done, error, changes, slot), infrastructure(error)
        return msgspec.structs.replace(done, launch=launch), self.disturbed(launch) if steady else ""

    def arms(self, changes: ChangeSet) -> Arms:
        """Both arms of a comparison with a part of the change set.

        Raises:
            Refused: It does not apply.
        """
        part = msgspec.structs.replace(self.hypothesis, changes=changes, after=())
        return plan_trial(self.bench, part, self.baseline, override=KNOWN)[0]

    def failed(self, done: SubsetLaunched, error: KnowngoodError, changes: ChangeSet, slot: Slot) -> SubsetLaunched:
        """The launch with its failure, which is the one looked for if it has the same signature."""
        diagnosis = diagnosis_of(error)
        mark = signature(error.message, diagnosis)
        outcome: Outcome = "failed" if self.sought in ("", mark) else "unresolved"
        log = self.bench.scratch / f"{slot.name}.log"
        return msgspec.structs.replace(
            done,
            outcome=outcome,
            signature=mark,
            why=error.message,
            diagnosis=blame(diagnosis, changes.members) if diagnosis is not None else None,
            log=self.bench.artifacts.put(log) if log.exists() else "",
        )

    def disturbed(self, launch: LaunchRecord) -> str:
        """Say in what a launch saw another host than the launches before; empty if it did not."""
        before = [one.launch for one in self.counted if one.launch is not None] or list(self.bench.memory.state.ledger)
        # Members may set what can be set.
        return unlike(launch, before, watched(self.bench.config.host_limits, sets_something=True))

    def value(self, done: SubsetLaunched) -> float | None:
        """The objective of a launch as ln of a metric of which more is better; None for a failure."""
        if done.launch is None:
            return None
        return math.log(done.launch.value) * (1 if self.bench.config.direction == "higher" else -1)


def diagnosis_of(error: KnowngoodError) -> Diagnosis | None:
    """What the log says about an error, if anybody has read it."""
    found = error.facts.get("diagnosis")
    return found if isinstance(found, Diagnosis) else None


def infrastructure(error: KnowngoodError) -> str:
    """Why a failure may be the host's or the load's fault; empty if it looks like the server's own."""
    found = diagnosis_of(error)
    if found is not None and found.cause in HOST_CAUSES:
        return f"{found.cause.replace('_', ' ')} may lie in what others left"
    return "it may have been too slow only" if isinstance(error, NotReady | LoadError) else ""
