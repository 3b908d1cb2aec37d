"""Pairs of launches, one of each arm, measured until the rule decides."""

import statistics
from collections.abc import Sequence

import msgspec

from knowngood.flow.accuracy import AccuracyDesk
from knowngood.flow.answers import AnswerDesk, read_prompts
from knowngood.flow.bench import Bench
from knowngood.flow.conditions import measure_even, require_same_packages
from knowngood.flow.launch import Slot, measure_launch, standing
from knowngood.flow.preflight import Arms, lab_prefix
from knowngood.flow.server import Server
from knowngood.model.events import AccuracyChecked, AnswersChecked, LaunchMeasured, PairRepeated
from knowngood.model.evidence import Arm, LaunchRecord
from knowngood.model.verdict import Verdict
from knowngood.reason.accuracy import judge_accuracy
from knowngood.reason.answers import passes
from knowngood.reason.comparison import Comparison
from knowngood.reason.conditions import unlike, watched
from knowngood.reason.guards import GuardResult
from knowngood.reason.load import foreign_cores


class Pairs:
    """The measuring of one trial.

    Attributes:
        current: The launch under way, for whoever has to explain its failure.
        accepted: Launches of whole pairs that count, those of a trial that is gone on with included.
        conditions: What has to be the same for both launches of a pair.
    """

    def __init__(
        self, bench: Bench, trial: str, arms: Arms, comparison: Comparison, resumed: Sequence[LaunchRecord] = ()
    ) -> None:
        self.bench = bench
        self.trial = trial
        self.arms = arms
        self.comparison = comparison
        self.desk = AnswerDesk(bench, read_prompts(bench), version=comparison.version)
        self.accuracy = AccuracyDesk(bench)
        self.accepted: list[LaunchRecord] = list(resumed)
        self.conditions = watched(bench.config.host_limits, sets_something=bool(arms.changes.settings()))
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
            CheckFailed: A member is not in force, the host stayed uneven, or the accuracy command failed.
            LoadError: The benchmark client could not do its work.
        """
        while True:
            spoiled = self.broken_guard()
            if spoiled is not None:
                verdict = self.comparison.reject(self.accepted, spoiled)
                break
            decided = self.comparison.verdict(self.accepted)
            if decided is not None:
                verdict = decided
                break
            self.accepted += self.measure_pair()
            self.show()
        if verdict.decision == "keep" and (self.desk.is_open or self.accuracy.is_open):
            self.ask_late()
            spoiled = self.broken_guard()
            verdict = verdict if spoiled is None else self.comparison.reject(self.accepted, spoiled)
        return msgspec.structs.replace(verdict, why=self.add_remarks(verdict))

    def measure_pair(self) -> list[LaunchRecord]:
        """Measure one launch of each arm, both again if the host was not the same for them.

        Returns:
            Both launches, or the candidate's alone if the rule needs no more.

        Raises:
            CheckFailed: It stayed uneven.
        """
        pair = len(self.accepted) // 2

        def drop(why: str) -> None:
            self.bench.memory.record(PairRepeated(at=self.bench.now(), trial=self.trial, pair=pair, why=why))
            self.bench.show.note(f"pair {pair + 1} does not count: {why}")

        return measure_even(
            lambda attempt: self.measure_both(pair, attempt), self.conditions, pair=pair, on_spoiled=drop
        )

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
        """Whether a lone launch may end the trial: not if it saw another host than the baseline's launches."""
        known = [launch for launch in self.comparison.ledger if launch.arm == "baseline"]
        known += [launch for launch in self.accepted if launch.arm == "baseline"]
        return not any(unlike(launch, known, self.conditions) for launch in launches)

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
        if arm == "baseline":
            require_same_packages(self.bench, launch)
        return launch

    def visit(self, server: Server, launch: LaunchRecord, so_far: Sequence[LaunchRecord]) -> None:
        """Ask a server for answers, unless its launch has ended the trial without a keep: then nobody wants them."""
        counts = self.half_pair_counts((launch,))
        verdict = self.comparison.judge((*so_far, launch), half_pair_counts=counts).verdict
        if verdict is None or verdict.decision == "keep":
            self.ask(server, launch.arm)

    def ask_late(self) -> None:
        """Launch both arms once more to be asked and no more: what a trial that was cut off was told is not at hand."""
        pair = len(self.accepted) // 2
        for arm in ("candidate", "baseline"):
            slot = Slot(lab=lab_prefix(self.bench), run=self.trial, arm=arm, index=self.index, pair=pair)
            self.current = slot
            with standing(self.bench, self.arms, slot) as (server, _):
                self.ask(server, arm)
            self.index += 1

    def ask(self, server: Server, arm: Arm) -> None:
        """Ask for what is still missing of answers and accuracy, and record each comparison once it stands."""
        answers, accuracy = self.desk.result, self.accuracy.result
        self.desk.visit(server, arm)
        if self.desk.result is not None and answers is None:
            event = AnswersChecked(at=self.bench.now(), trial=self.trial, check=self.desk.result)
            self.bench.memory.record(event)
        self.accuracy.visit(server, arm)
        if self.accuracy.result is not None and accuracy is None:
            self.bench.memory.record(AccuracyChecked(at=self.bench.now(), trial=self.trial, check=self.accuracy.result))

    def guards(self) -> tuple[GuardResult, ...]:
        """Every guard as it stands, those of correctness first."""
        mode = self.bench.config.compared_as
        found: list[GuardResult] = []
        if self.desk.result is not None and mode is not None:
            good, why = passes(self.desk.result, mode)
            found.append(GuardResult(name="answers", state="pass" if good else "fail", why=why))
        if self.accuracy.result is not None:
            judged = judge_accuracy(self.accuracy.result, margin=self.bench.config.accuracy_margin)
            # As the guard of correctness it has to be passed: it is asked once, so waiting shows no more.
            strict = self.bench.config.answers_mode == "accuracy" and judged.state == "undecided"
            found.append(msgspec.structs.replace(judged, state="fail") if strict else judged)
        return (*found, *self.comparison.guards(self.accepted))

    def broken_guard(self) -> GuardResult | None:
        """The first guard that surely fails; None if there is none."""
        return next((guard for guard in self.guards() if guard.state == "fail"), None)

    def add_remarks(self, verdict: Verdict) -> str:
        """Say beside the reason what looks corrupted, and with a keep which guards the evidence was too thin for."""
        remarks = [verdict.why]
        busy = statistics.median(foreign_cores(launch) for launch in self.accepted) if self.accepted else 0.0
        if busy > self.bench.config.verdict.foreign_cores:
            remarks.append(f"holds for a host this busy only: others used {busy:.2f} cores")
        suspicion = self.comparison.suspicion(self.accepted)
        remarks += [suspicion] if suspicion else []
        thin = [f"{guard.name} ({guard.why})" for guard in self.guards() if guard.state == "undecided"]
        remarks += [f"not decided: {', '.join(thin)}"] if thin and verdict.decision == "keep" else []
        return "; ".join(remarks)

    def show(self) -> None:
        """Show how far the comparison is."""
        done = len(self.accepted)
        self.bench.show.advance(f"{done // 2} pairs compared", done / self.comparison.most_launches)
