"""A knob space on a host: what the baseline has each knob at, and which combination to launch next."""

import math
from collections.abc import Mapping

from knowngood.flow.bench import Bench
from knowngood.flow.cost import launch_seconds
from knowngood.model.baseline import Baseline
from knowngood.model.change import Setting, describe
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.race import Space, Values
from knowngood.reason.findings import change_key, dead_ends
from knowngood.reason.propose import Tried, propose, require_optuna
from knowngood.reason.records import RaceRun
from knowngood.reason.space import candidate, combinations, is_dead, is_forbidden, member, stands_at


class Search:
    """Proposals out of a space.

    Attributes:
        is_exhausted: Nothing is left to propose.

    Args:
        bench: The lab's tools.
        baseline: What the knobs are varied from.
        space: The knobs.

    Raises:
        Refused: A setting cannot be read.
        UsageError: The space needs Optuna, which is not installed.
    """

    def __init__(self, bench: Bench, baseline: Baseline, space: Space) -> None:
        self.bench = bench
        self.baseline = baseline
        self.space = space
        self.is_exhausted = False
        members = (member(knob, knob.choices[0] if knob.choices else knob.low) for knob in space.knobs)
        settings = bench.host.settings.read([one for one in members if isinstance(one, Setting)])
        self.standing = {
            knob.name: stands_at(knob, baseline.spec, aliases=bench.engine.aliases, settings=settings)
            for knob in space.knobs
        }
        require_optuna(space, self.standing, launches_left=space.launches, is_open=self.opening(None))

    @property
    def size(self) -> int:
        """Proposals that there may be at most."""
        everything = combinations(self.space, self.standing)
        limits = [self.space.launches]
        if everything is not None:
            limits.append(sum(map(self.opening(None), everything)))
        if self.space.minutes:
            limits.append(math.ceil(60 * self.space.minutes / sum(launch_seconds(self.bench))))
        return min(limits)

    def next(self, run: RaceRun, effects: Mapping[str, float | None]) -> tuple[Hypothesis, Values] | None:
        """The next candidate with its knob values; None if nothing is left.

        Args:
            run: The race so far.
            effects: Candidate to its effect in ln units, as it is estimated now; None for one that was not measured.
        """
        failed = {one.candidate for one in run.failures}
        tried = [
            Tried(values=values, effect=None if name in failed else effects.get(name))
            for name, values in run.values.items()
        ]
        left = self.space.launches - len(tried)
        values = propose(self.space, tried, self.standing, launches_left=left, is_open=self.opening(run))
        self.is_exhausted = values is None
        return None if values is None else (candidate(self.space, values, self.standing), values)

    def opening(self, run: RaceRun | None) -> "Opening":
        """What may be proposed now."""
        return Opening(self, run)


class Opening:
    """Tells whether a combination may be proposed: it is new, allowed, and not known to fail."""

    def __init__(self, search: Search, run: RaceRun | None) -> None:
        self.search = search
        self.dead = frozenset(dead_ends(search.bench.memory.state.findings, search.baseline.facts))
        raced = run.candidates if run else ()
        self.known = {change_key(one.changes) for one in raced}
        accused = [one.diagnosis.member for one in (run.failures if run else ()) if one.diagnosis is not None]
        members = {describe(change) for one in raced for change in one.changes.members}
        self.guilty = frozenset(name for name in accused if name in members)

    def __call__(self, values: Values) -> bool:
        """Whether this combination may be proposed."""
        space, standing = self.search.space, self.search.standing
        changes = candidate(space, values, standing).changes
        if not changes.members or is_forbidden(space, values, standing) or is_dead(changes, self.dead, self.guilty):
            return False
        return change_key(changes) not in self.known
