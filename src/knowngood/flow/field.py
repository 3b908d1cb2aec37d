"""Who races on a host: every candidate checked before the first launch, and what the race will cost."""

import hashlib

import msgspec

from knowngood.config.space import LineUp
from knowngood.errors import Refused, UsageError
from knowngood.flow.bench import Bench
from knowngood.flow.cost import launch_seconds
from knowngood.flow.preflight import Arms, plan_trial, require_baseline
from knowngood.flow.search import Search
from knowngood.model.baseline import Baseline
from knowngood.model.change import ChangeSet
from knowngood.model.hypothesis import Hypothesis
from knowngood.reason.comparison import floor_of
from knowngood.reason.findings import change_key, dead_end
from knowngood.reason.profile import find_profile
from knowngood.reason.race import BASELINE
from knowngood.reason.rehearse import RacePrice, race_price


class Field:
    """The candidates of a race, each checked against what stands on the host before the first launch.

    Attributes:
        key: Digest of all that was to be raced, dead ends included, whatever the names and the budget.
        candidates: Those that race from the start.
        left_out: Candidate to the dead end that it is.
        arms: Candidate to how it is launched.
        search: Where further candidates come from; None if they are all named.

    Raises:
        Refused: All candidates are known dead ends, or one cannot be applied.
        UsageError: Two candidates are the same change.
    """

    def __init__(self, bench: Bench, baseline: Baseline, line_up: LineUp) -> None:
        self.bench = bench
        self.baseline = baseline
        self.left_out: dict[str, str] = {}
        self.arms: dict[str, Arms] = {
            BASELINE: Arms(baseline=baseline.spec, candidate=baseline.spec, changes=ChangeSet())
        }
        self.key = key_of(line_up)
        self.search = Search(bench, baseline, line_up.space) if line_up.space else None
        seen: dict[str, str] = {}
        racing: list[Hypothesis] = []
        for one in line_up.candidates:
            other = seen.setdefault(change_key(one.changes), one.name)
            if other != one.name:
                raise UsageError(f"{other} and {one.name} are the same change", hint="leave one of them out")
            dead = dead_end(bench.memory.state.findings, one.changes, baseline.facts)
            if dead is None:
                self.plan(one)
                racing.append(one)
            else:
                self.left_out[one.name] = f"a known dead end ({dead.id}): {dead.quote or dead.claim}"
        self.candidates = tuple(racing)
        if line_up.candidates and not racing:
            name, why = next(iter(self.left_out.items()))
            raise Refused(
                f"nobody is left to race; {name} is {why}", hint="knowngood try --override tries one all the same"
            )

    def plan(self, candidate: Hypothesis) -> None:
        """Check a candidate as a trial would."""
        self.arms[candidate.name], _ = plan_trial(self.bench, candidate, self.baseline, override="")

    def price(self, profile: str) -> RacePrice:
        """What the race and the trial of its winner will cost."""
        launch_s, run_s = launch_seconds(self.bench)
        config = self.bench.config
        return race_price(
            find_profile(profile),
            floor_of(self.bench.memory.state, config.objective.metric, workload=config.workloads[0].name),
            config.worthwhile,
            candidates=self.search.size if self.search else len(self.candidates),
            launch_s=launch_s,
            run_s=run_s,
        )


def key_of(line_up: LineUp) -> str:
    """Digest of what is to be raced: the changes, or the space; 16 hexadecimal digits."""
    space = line_up.space and msgspec.structs.replace(line_up.space, launches=0, minutes=0.0)
    keys = sorted(change_key(one.changes) for one in line_up.candidates)
    return hashlib.sha256(msgspec.json.encode((keys, space))).hexdigest()[:16]


class RacePreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a race would do.

    Attributes:
        candidates: Names of those that would race from the start.
        left_out: Candidate to the dead end that it is.
        proposals: How many more a space would propose.
        cost: What it would take.
    """

    candidates: tuple[str, ...]
    left_out: dict[str, str]
    proposals: int
    cost: RacePrice


def preview_race(bench: Bench, line_up: LineUp, *, profile: str = "") -> RacePreview:
    """Check everything that a race checks, and say what it would cost; nothing is started.

    Raises:
        Refused: All candidates are known dead ends, or one cannot be applied.
        UsageError: There is no baseline, two candidates are the same change, or Optuna is needed and missing.
    """
    field = Field(bench, require_baseline(bench), line_up)
    return RacePreview(
        candidates=tuple(one.name for one in field.candidates),
        left_out=field.left_out,
        proposals=field.search.size if field.search else 0,
        cost=field.price(profile or bench.config.verdict.profile),
    )
