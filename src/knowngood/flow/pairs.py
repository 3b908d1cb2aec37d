"""Pairs of launches, one of each arm, measured until the rule decides."""

from collections.abc import Sequence

import msgspec

from knowngood.errors import CheckFailed
from knowngood.flow.answers import AnswerDesk, read_prompts
from knowngood.flow.bench import Bench
from knowngood.flow.launch import Slot, measure_launch, standing
from knowngood.flow.preflight import Arms, lab_prefix
from knowngood.flow.server import Server
from knowngood.model.events import AnswersChecked, LaunchMeasured, PairRepeated
from knowngood.model.evidence import Arm, LaunchRecord
from knowngood.model.verdict import Verdict
from knowngood.reason.answers import passes
from knowngood.reason.comparison import Comparison
from knowngood.reason.guards import GuardResult
from knowngood.reason.load import foreign_load, is_uneven, is_unlike

REPEATS = 2
MAKE_QUIET = "make the machine quiet, or raise [verdict] foreign_cores; `knowngood doctor` names the busy processes"


class Pairs:
    """The measuring of one trial.

    Attributes:
        current: The launch under way, for whoever has to explain its failure.
        accepted: Launches of whole pairs that count, those of a trial that is gone on with included.
    """

    def __init__(
        self, bench: Bench, trial: str, arms: Arms, comparison: Comparison, resumed: Sequence[LaunchRecord] = ()
    ) -> None:
        self.bench = bench
        self.trial = trial
        self.arms = arms
        self.comparison = comparison
        self.desk = AnswerDesk(bench, read_prompts(bench), version=comparison.version)
        self.accepted: list[LaunchRecord] = list(resumed)
        self.current = Slot(lab=lab_prefix(bench), run=trial, arm="candidate", index=0, pair=0)
        self.index = 1 + max((launch.index for launch in resumed), default=-1)

    @property
    def arm(self) -> Arm:
        """Arm of the launch under way."""
        return self.current.arm

    def run(self) -> Verdict:
        """Measure pair after pair until there is a verdict.

        Raises:
            LaunchError: A server did not come up, or died.
            CheckFailed: A member is not in force, or foreign load stayed uneven.
            LoadError: The benchmark client could not do its work.
        """
        while (verdict := self.comparison.verdict(self.accepted)) is None:
            launches = self.measure_pair()
            self.accepted += launches
            spoiled = self.broken_guard()
            if spoiled is not None:
                return self.comparison.reject(self.accepted, spoiled)
            self.show()
        if verdict.decision != "keep":
            return verdict
        if self.desk.is_open:
            self.ask_late()
            spoiled = self.broken_guard()
            if spoiled is not None:
                return self.comparison.reject(self.accepted, spoiled)
        return msgspec.structs.replace(verdict, why=self.add_remarks(verdict.why))

    def measure_pair(self) -> list[LaunchRecord]:
        """Measure one launch of each arm; repeat both if foreign load hit them unevenly.

        Returns:
            Both launches, or the candidate's alone if the rule needs no more.

        Raises:
            CheckFailed: It stayed uneven.
        """
        limit = self.bench.config.verdict.foreign_cores
        pair = len(self.accepted) // 2
        why = ""
        for attempt in range(REPEATS + 1):
            launches = self.measure_both(pair, attempt)
            if len(launches) < len(("candidate", "baseline")) or not is_uneven(*launches, limit=limit):
                return launches
            why = foreign_load(launches)
            self.bench.memory.record(PairRepeated(at=self.bench.now(), trial=self.trial, pair=pair, why=why))
            self.bench.show.note(f"pair {pair + 1} does not count: {why}")
        raise CheckFailed(f"foreign load differed in pair {pair + 1} three times: {why}", hint=MAKE_QUIET)

    def measure_both(self, pair: int, attempt: int) -> list[LaunchRecord]:
        """Measure the launches of one pair, in the rule's order."""
        launches: list[LaunchRecord] = []
        while len(launches) < len(("candidate", "baseline")):
            so_far = (*self.accepted, *launches)
            arm = self.comparison.next_arm(so_far, half_pair_counts=self.half_pair_counts(launches))
            if arm is None:
                break
            launches.append(self.measure_one(arm, pair, attempt, so_far))
        return launches

    def half_pair_counts(self, launches: Sequence[LaunchRecord]) -> bool:
        """Whether a lone launch may end the trial: not if it saw another foreign load than the baseline's launches."""
        known = [launch for launch in self.comparison.ledger if launch.arm == "baseline"]
        known += [launch for launch in self.accepted if launch.arm == "baseline"]
        limit = self.bench.config.verdict.foreign_cores
        return not any(is_unlike(launch, known, limit=limit) for launch in launches)

    def measure_one(self, arm: Arm, pair: int, attempt: int, so_far: Sequence[LaunchRecord]) -> LaunchRecord:
        """Measure one launch and record it."""
        lab = lab_prefix(self.bench)
        slot = Slot(lab=lab, run=self.trial, arm=arm, index=self.index, pair=pair, attempt=attempt)
        self.current = slot
        launch = measure_launch(
            self.bench,
            self.arms,
            slot,
            again=lambda values: self.comparison.needs_verification(so_far, arm, values, at=self.bench.now()),
            on_measured=lambda server, launch: self.visit(server, launch, so_far),
        )
        self.bench.memory.record(LaunchMeasured(at=self.bench.now(), run=self.trial, launch=launch))
        self.index += 1
        metric = self.bench.config.objective.metric
        self.bench.show.note(f"launch {self.index} ({arm}): {metric} {launch.value:.4g}")
        return launch

    def visit(self, server: Server, launch: LaunchRecord, so_far: Sequence[LaunchRecord]) -> None:
        """Ask a server for answers, unless its launch has ended the trial without a keep: then nobody wants them."""
        counts = self.half_pair_counts((launch,))
        verdict = self.comparison.judge((*so_far, launch), half_pair_counts=counts).verdict
        if verdict is None or verdict.decision == "keep":
            self.ask(server, launch.arm)

    def ask_late(self) -> None:
        """Launch both arms once more for their answers alone: those of a trial that was cut off are not at hand."""
        pair = len(self.accepted) // 2
        for arm in ("candidate", "baseline"):
            slot = Slot(lab=lab_prefix(self.bench), run=self.trial, arm=arm, index=self.index, pair=pair)
            self.current = slot
            with standing(self.bench, self.arms, slot) as (server, _):
                self.ask(server, arm)
            self.index += 1

    def ask(self, server: Server, arm: Arm) -> None:
        """Ask for answers where they are still missing, and record the comparison once it stands."""
        before = self.desk.result
        self.desk.visit(server, arm)
        if self.desk.result is not None and before is None:
            event = AnswersChecked(at=self.bench.now(), trial=self.trial, check=self.desk.result)
            self.bench.memory.record(event)

    def broken_guard(self) -> GuardResult | None:
        """The first guard that surely fails; None if there is none."""
        mode = self.bench.config.answers_mode
        if self.desk.result is not None and mode != "off":
            good, why = passes(self.desk.result, mode)
            if not good:
                return GuardResult(name="answers", state="fail", why=why)
        return next((g for g in self.comparison.guards(self.accepted) if g.state == "fail"), None)

    def add_remarks(self, why: str) -> str:
        """Say with a keep which guards the evidence was too thin for."""
        thin = [
            f"{guard.name} ({guard.why})"
            for guard in self.comparison.guards(self.accepted)
            if guard.state == "undecided"
        ]
        return f"{why}; not decided: {', '.join(thin)}" if thin else why

    def show(self) -> None:
        """Show how far the comparison is."""
        done = len(self.accepted)
        self.bench.show.advance(f"{done // 2} pairs compared", done / self.comparison.most_launches)
