"""What rules for "is it faster?" do on the same simulated machines: false keeps, power, launches, minutes.

    python benchmarks/verdict.py [--trials 20000] [--seed 1]

Every rule sees the same noise. A launch costs 120 s, a run 60 s; launch CV 1-3 %, run CV 1-2 % (drawn for each
machine), drift 2.5 % with a time constant of an hour, 2 % of all runs lose 10-30 %.
"""

import argparse
import time
from collections.abc import Callable

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_ind

from knowngood.reason.decide import ORDER, Bools, Rule, Trials
from knowngood.reason.profile import PROFILES
from knowngood.reason.simulate import RUNS, Lot, Machine, learn_scale, ledger_and_trial, play
from knowngood.reason.track import Floats

LAUNCH_S, RUN_S = 120.0, 60.0
EFFECTS = (0.0, 0.005, 0.02, 0.05, 0.10, -0.05)
BENCHSTAT_RUNS = 10
MANN_WHITNEY_77 = 77
"""Smallest U of 10 against 10 that is significant at 5 %, two-sided and exact."""


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """Of one rule at one effect: what was kept, what it took."""

    kept: Bools
    launches: NDArray[np.intp]
    runs: NDArray[np.intp]

    @property
    def minutes(self) -> float:
        """Mean duration of a trial."""
        return float((self.launches.mean() * LAUNCH_S + self.runs.mean() * RUN_S) / 60)


class World:
    """The same machines, ledgers and noise for every rule and every effect."""

    def __init__(self, trials: int, seed: int) -> None:
        lot = Lot(Machine(), trials, np.random.default_rng(seed))
        self.scale, self.freedom = learn_scale(lot, 10)
        self.ledger, self.noise, self.at = ledger_and_trial(
            lot, np.zeros(trials), PROFILES["thorough"].pairs, self.scale, runs=BENCHSTAT_RUNS
        )

    def runs(self, effect: float) -> Floats:
        """All runs with a candidate of this effect, shape (trials, launches, runs)."""
        candidate = np.resize(np.array(ORDER), self.noise.shape[1])
        return self.noise + float(np.log1p(effect)) * candidate[:, None]

    def arms(self, effect: float) -> tuple[Floats, Floats]:
        """Candidate's and baseline's runs, shape (trials, launches of an arm, runs)."""
        runs = self.runs(effect)
        candidate = np.resize(np.array(ORDER), runs.shape[1])
        return runs[:, candidate], runs[:, ~candidate]


def fixed(kept: Bools, *, launches: int, runs: int) -> Result:
    return Result(kept=kept, launches=np.full(len(kept), launches), runs=np.full(len(kept), runs))


def means(count: int) -> Callable[[World, float], Result]:
    def judge(world: World, effect: float) -> Result:
        ours, theirs = world.arms(effect)
        return fixed(ours[:, 0, :count].mean(1) > theirs[:, 0, :count].mean(1), launches=2, runs=2 * count)

    return judge


def benchstat(world: World, effect: float) -> Result:
    ours, theirs = world.arms(effect)
    wins = (ours[:, 0, :, None] > theirs[:, 0, None, :]).sum(axis=(1, 2))
    return fixed(wins >= MANN_WHITNEY_77, launches=2, runs=2 * BENCHSTAT_RUNS)


def welch(world: World, effect: float) -> Result:
    ours, theirs = (arm[:, :10, 0] for arm in world.arms(effect))
    p = np.asarray(ttest_ind(ours, theirs, axis=1, equal_var=False, alternative="greater").pvalue, dtype=np.float64)
    return fixed(p < 0.01, launches=20, runs=20)


def knowngood(profile: str) -> Callable[[World, float], Result]:
    def judge(world: World, effect: float) -> Result:
        chosen = PROFILES[profile]
        rule = Rule(profile=chosen, worthwhile=float(np.log1p(0.02)), freedom=world.freedom)
        launches = 2 * chosen.pairs
        runs = world.runs(effect)[:, :launches, :RUNS]
        outcomes = play(Trials(rule, world.scale, world.ledger), runs, world.at[:launches])
        return Result(kept=outcomes.kept, launches=outcomes.launches, runs=outcomes.runs)

    return judge


RULES: dict[str, Callable[[World, float], Result]] = {
    "one run each, better is kept": means(1),
    "3 runs each in one launch, means": means(3),
    "10 runs each in one launch, Mann-Whitney 5 %": benchstat,
    "10 + 10 launches interleaved, Welch 1 %": welch,
    "**knowngood**, standard": knowngood("standard"),
    "knowngood, quick": knowngood("quick"),
    "knowngood, thorough": knowngood("thorough"),
    "knowngood, explore": knowngood("explore"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.perf_counter()
    world = World(options.trials, options.seed)
    kept_at = "".join(f" {effect:+.1%} |" if effect else " 0 |" for effect in EFFECTS)
    print(f"| rule, share kept at a true effect of |{kept_at} launches at 0 / +5 % / -5 % | minutes at 0 / +5 % |")
    print("|---|" + "--:|" * len(EFFECTS) + "--:|--:|")
    for name, rule in RULES.items():
        results = {effect: rule(world, effect) for effect in EFFECTS}
        shares = "".join(f" {result.kept.mean():.2%} |" for result in results.values())
        launches = " / ".join(f"{results[effect].launches.mean():.1f}" for effect in (0.0, 0.05, -0.05))
        minutes = " / ".join(f"{results[effect].minutes:.0f}" for effect in (0.0, 0.05))
        print(f"| {name} |{shares} {launches} | {minutes} |", flush=True)
    print(f"\n{options.trials} trials a cell, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
