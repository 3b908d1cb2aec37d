"""A verdict on runs that were made elsewhere: they are fed to the rule in the order in which it would have asked.

What does not stand where the rule would have put it is left out, and said. So a keep is one that the rule itself
reached, on launches in its own order: C B, B C, C B ...
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from knowngood.errors import UsageError
from knowngood.model.evidence import Arm
from knowngood.model.measured import Measured, Offer, Question, Ruling, Side, Start
from knowngood.reason.decide import ORDER
from knowngood.reason.judge import VERIFYING_RUNS, Judge
from knowngood.reason.ledger import LEDGER_AGE_S
from knowngood.reason.noise import FULL_HISTORY, UNKNOWN_SCALE, noise_from_launches

IN_TURNS = "C B B C C B B C …"


class Pair(NamedTuple):
    """Places of a candidate launch and of the baseline launch beside it."""

    candidate: int
    baseline: int

    def place(self, arm: Arm) -> int:
        """Place of one arm's launch."""
        return self.candidate if arm == "candidate" else self.baseline


def rule_on(offer: Offer, question: Question, *, history: Offer | None = None) -> Ruling:
    """Let the rule judge runs made elsewhere.

    Args:
        offer: The runs of both arms, perhaps with launches of the arm ``noise``.
        question: What is asked.
        history: Further A/A launches; its clock may be another, so they tell the noise and nothing else.

    Raises:
        UsageError: There are no runs of the metric, or the history has runs of a candidate.
    """
    runs = runs_of(offer, question.metric)
    past = runs_of(history, question.metric) if history else ()
    if any(run.arm == "candidate" for run in past):
        raise UsageError(
            f"{history.name if history else ''} has runs of a candidate", hint="A/A history is of the baseline alone"
        )
    problems = [*unreadable(runs)]
    told = () if problems else starts(runs)
    earlier = () if unreadable(past) else starts(past)
    if past and not earlier:
        problems.append("the A/A history does not say which launch a run belongs to, or when it was: it is left out")
    if len({start.at for start in told}) < len(told):
        problems.append("two launches begin at the same time: nobody can tell which came first")
        told = ()
    hearing = Hearing(question, told, earlier)
    hearing.hear()
    problems += hearing.problems()
    if offer.unread:
        problems.append(f"not read: {', '.join(offer.unread)}")
    return hearing.ruling(problems)


def runs_of(offer: Offer, metric: str) -> tuple[Measured, ...]:
    """Runs of one metric.

    Raises:
        UsageError: There are none.
    """
    found = tuple(run for run in offer.runs if run.metric == metric)
    if not found:
        known = ", ".join(dict.fromkeys(run.metric for run in offer.runs))
        raise UsageError(f"{offer.name} has no metric {metric!r}", hint=f"it has {known}")
    return found


def only_metric(offer: Offer) -> str:
    """The metric of the runs.

    Raises:
        UsageError: There are several.
    """
    names = list(dict.fromkeys(run.metric for run in offer.runs))
    if len(names) > 1:
        raise UsageError(f"{offer.name} has several metrics", hint=f"--metric says which decides: {', '.join(names)}")
    return names[0]


def unreadable(runs: Sequence[Measured]) -> tuple[str, ...]:
    """Why launches cannot be put in their order; empty if they can."""
    found: list[str] = []
    for lack, count in (("launch", sum(not run.launch for run in runs)), ("time", sum(run.at is None for run in runs))):
        if count:
            found.append(f"{count} of {len(runs)} runs have no {lack}: {LACKS[lack]}")
    return tuple(found)


LACKS = {
    "launch": "they may all come from one launch, and runs of one launch are not independent",
    "time": "nobody can tell whether the arms took turns, or how old the launches are",
}


def starts(runs: Sequence[Measured]) -> tuple[Start, ...]:
    """Gather runs into launches, in the order of their times; every run has a launch and a time."""
    gathered: dict[tuple[Side, str], list[Measured]] = {}
    for run in sorted(runs, key=lambda run: run.at or 0.0):
        gathered.setdefault((run.arm, run.launch), []).append(run)
    return tuple(
        Start(arm=arm, name=name, at=own[0].at or 0.0, values=tuple(run.value for run in own))
        for (arm, name), own in gathered.items()
    )


def pair_up(launches: Sequence[Start]) -> tuple[Pair, ...]:
    """Find the pairs that the rule would have made: neighbours, in the order C B, B C, C B ... or its mirror image.

    Args:
        launches: Those of candidate and baseline, in the order of their times.
    """
    found = [turns(launches, first=first) for first in ("candidate", "baseline")]
    return max(found, key=len)


def turns(launches: Sequence[Start], *, first: str) -> tuple[Pair, ...]:
    """Pairs of neighbours whose first launches are ``first``, the other arm, the other arm, ``first``, ``first`` ..."""
    pairs: list[Pair] = []
    at = 0
    while at + 1 < len(launches):
        one, other = launches[at], launches[at + 1]
        is_turn = (one.arm == first) == ORDER[2 * len(pairs) % len(ORDER)]
        if is_turn and one.arm != other.arm and are_near(one, other):
            pairs.append(Pair(at, at + 1) if one.arm == "candidate" else Pair(at + 1, at))
            at += 1
        at += 1
    return tuple(pairs)


def are_near(one: Start, other: Start) -> bool:
    """Whether two launches saw the same machine: what is older says nothing about today's."""
    return abs(one.at - other.at) <= LEDGER_AGE_S


def side_by_side(launches: Sequence[Start | None]) -> tuple[tuple[Start, Start], ...]:
    """Pair neighbours among equal launches, each used once; None parts what does not stand side by side."""
    found: list[tuple[Start, Start]] = []
    waiting: Start | None = None
    for start in launches:
        if start is not None and waiting is not None and are_near(waiting, start):
            found.append((waiting, start))
            waiting = None
        else:
            waiting = start
    return tuple(found)


class Hearing:
    """The rule, fed with launches made elsewhere.

    Args:
        question: What is asked.
        launches: All launches in their order; empty if it is not known.
        earlier: Launches of the A/A history.
    """

    def __init__(self, question: Question, launches: Sequence[Start], earlier: Sequence[Start]) -> None:
        self.question = question
        self.launches = launches
        self.trial = [start for start in launches if start.arm != "noise"]
        self.pairs = pair_up(self.trial)
        self.use: dict[str, str] = {}
        paired = {place for pair in self.pairs for place in pair}
        spare = [
            None if place in paired or start.arm == "candidate" else start for place, start in enumerate(self.trial)
        ]
        equal = [start for start in launches if start.arm == "noise"]
        here = (*side_by_side(equal), *side_by_side(spare))
        self.noise = tuple(
            difference
            for one, other in (*side_by_side(earlier), *here)
            for difference in noise_from_launches([one.value, other.value])
        )
        for start in (*equal, *(start for pair in here for start in pair)):
            self.use[start.title] = "noise"
        # Of these the judge takes those that are recent when the trial begins.
        ledger = [(start.at, start.value) for start in launches if self.use.get(start.title) == "noise"]
        self.fed = 0
        self.unverified: list[Start] = []
        self.judge = Judge(
            profile=question.profile,
            direction=question.direction,
            worthwhile=question.worthwhile,
            noise=self.noise,
            ledger=ledger,
        )

    def hear(self) -> None:
        """Feed the rule until it has its verdict, or there is nothing more that it would ask for."""
        for number, pair in enumerate(self.pairs):
            is_candidate_first = ORDER[2 * number % len(ORDER)]
            order: tuple[Arm, Arm] = ("candidate", "baseline") if is_candidate_first else ("baseline", "candidate")
            is_over = self.judge.verdict is not None
            for arm in order:
                start = self.trial[pair.place(arm)]
                if is_over:
                    self.use[start.title] = "after"
                else:
                    self.feed(arm, start, use=f"pair {number + 1}")
        if self.judge.verdict is None:
            self.hear_lone()

    def hear_lone(self) -> None:
        """Feed the first launch of a pair that was not finished, too: it may end the trial."""
        last = max((max(pair) for pair in self.pairs), default=-1)
        lone = next((start for start in self.trial[last + 1 :] if start.arm == self.judge.next_arm), None)
        if lone is not None and self.judge.next_arm is not None:
            self.feed(self.judge.next_arm, lone, use="alone")

    def feed(self, arm: Arm, start: Start, *, use: str) -> None:
        """Give the rule one launch; where it would have run it again, its value is all there is."""
        self.judge.add(arm=arm, value=start.value, at=start.at)
        if self.judge.same_launch and len(start.values) < VERIFYING_RUNS:
            self.unverified.append(start)
        while self.judge.same_launch:
            self.judge.add(arm=arm, value=start.value, at=start.at)
        self.fed += 1
        self.use[start.title] = use

    def ruling(self, problems: Sequence[str]) -> Ruling:
        """Sum up."""
        verdict = self.judge.verdict
        estimate, low, high = self.judge.effect
        return Ruling(
            question=self.question,
            verdict=verdict,
            effect=() if estimate is None or low is None or high is None else (estimate, low, high),
            mde=self.judge.mde,
            pairs=self.fed // 2,
            noise=self.noise,
            launches=tuple(
                msgspec.structs.replace(start, use=self.use.get(start.title, "left out")) for start in self.launches
            ),
            problems=tuple(problems),
            needed=() if verdict else self.needed(),
        )

    def problems(self) -> list[str]:
        """Where the design is not what the rule needs."""
        return [*self.runs_counted(), *self.out_of_turn(), *self.history(), *self.suspicious(), *self.overtime()]

    def runs_counted(self) -> list[str]:
        """Runs of one launch that were offered as if they were independent."""
        found: list[str] = []
        for arm in ("candidate", "baseline"):
            own = [start for start in self.trial if start.arm == arm]
            runs = sum(len(start.values) for start in own)
            if runs > len(own):
                found.append(
                    f"{runs} runs of the {arm} count as {counted(len(own), 'value')}, the median of each launch: runs "
                    "of one launch share its luck"
                )
        return found

    def out_of_turn(self) -> list[str]:
        """Launches that do not stand where the rule would have put them."""
        left = [start for start in self.trial if start.title not in self.use]
        switches = sum(one.arm != other.arm for one, other in pairwise(self.trial))
        sides = {arm: sum(start.arm == arm for start in self.trial) for arm in ("baseline", "candidate")}
        both = f"{sides['baseline']} baseline and {counted(sides['candidate'], 'candidate launch')}"
        apart = sum(one.arm != other.arm and not are_near(one, other) for one, other in pairwise(self.trial))
        found: list[str] = []
        if self.trial and not all(sides.values()) and self.judge.verdict is None:
            found.append(f"{both}: both arms are needed")
        elif switches == 1 and len(self.trial) > len(("candidate", "baseline")):
            found.append(
                f"the arms stand in blocks ({both}): a machine that changes in between looks like an effect; "
                f"{counted(len(self.pairs), 'pair')} can be compared"
            )
        elif left:
            names = ", ".join(start.title for start in left)
            found.append(f"{both}: not in the order {IN_TURNS}, and so left out: {names}")
        if apart:
            hours = LEDGER_AGE_S / 3600
            found.append(f"{counted(apart, 'pair')} of neighbours lie more than {hours:g} h apart and are no pairs")
        return found

    def history(self) -> list[str]:
        """What is missing in the A/A history."""
        if not self.trial or len(self.noise) >= FULL_HISTORY:
            return []
        assumed = f"a spread of {UNKNOWN_SCALE:.0%} is assumed"
        if self.noise:
            return [f"only {counted(len(self.noise), 'A/A pair')}: {assumed} for the missing ones"]
        return [f"no A/A history: {assumed} for when to stop, and a keep rests on the trial's own pairs alone"]

    def suspicious(self) -> list[str]:
        """Launches that look wrong, and which the rule would have run again."""
        return [
            f"{start.title} is far below its like: the rule would have run it {VERIFYING_RUNS} times in the same "
            "launch and taken the median"
            for start in self.unverified
        ]

    def overtime(self) -> list[str]:
        """Launches after the verdict."""
        late = sum(use == "after" for use in self.use.values())
        heard = counted(self.fed, "launch")
        return [f"the rule had its verdict after {heard}: {counted(late, 'later launch')} do not count"] if late else []

    def needed(self) -> tuple[str, ...]:
        """What would make a verdict possible."""
        most = self.judge.profile.pairs
        if not self.trial:
            return (
                "for each run the launch that it belongs to and its time, in seconds or as a date",
                f"launches in turns, {IN_TURNS}, the server started anew for each",
            )
        if not self.pairs:
            found = [f"launches in turns, {IN_TURNS}, the server started anew for each"]
        else:
            so_far = f"{counted(len(self.pairs), 'pair')} so far, {self.question.profile} looks at up to {most}"
            found = [f"further launches in turns, the {self.judge.next_arm}'s next: {so_far}"]
        if len(self.noise) < FULL_HISTORY:
            found.append(
                f"{FULL_HISTORY} pairs of baseline launches side by side (arm noise, or --noise FILE): with them a "
                "clear gain is proven by fewer pairs"
            )
        return tuple(found)


def counted(count: int, noun: str) -> str:
    """A number and its noun."""
    plural = f"{noun}es" if noun.endswith("h") else f"{noun}s"
    return f"{count} {noun if count == 1 else plural}"
