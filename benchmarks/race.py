"""Ways to find the best of many candidates, on the same simulated machines: launches, useless keeps, what is lost.

    python benchmarks/race.py [--races 1000] [--seed 1]

A candidate does nothing (60 %), hurts (20 %), gains 1 to 3 % (12 %) or 3 to 12 % (8 %). Launch CV 1-3 %, run CV 1-2 %
(drawn for each machine), drift 2.5 % with a time constant of an hour, 2 % of all runs lose 10-30 %. *Lost* is what the
best candidate is worth more than what was kept.
"""

import argparse
from collections.abc import Callable

import numpy as np

from knowngood.reason.profile import PROFILES
from knowngood.reason.rehearse import NOBODY, draw_ideas, race_many
from knowngood.reason.simulate import Lot, Machine, judge_many
from knowngood.reason.track import Floats

MACHINE = Machine()
WORTHWHILE = 0.02
Row = tuple[float, float, float]


def sum_up(effects: Floats, kept: Floats, launches: Floats) -> Row:
    """Mean launches, share of useless keeps, mean loss; ``kept`` is the true effect kept, NaN for nothing."""
    best = np.maximum(effects.max(axis=1), 0.0)
    useless = (kept < WORTHWHILE / 4).mean()
    return float(launches.mean()), float(useless), float((best - np.nan_to_num(kept)).mean())


def confirmed(effects: Floats, pick: Floats, launches: Floats, seed: int) -> Row:
    """Try the pick of each race (NaN for nobody) by an ordinary trial."""
    trials = judge_many(
        np.nan_to_num(pick), machine=MACHINE, profile=PROFILES["standard"], worthwhile=WORTHWHILE, seed=seed
    )
    won = ~np.isnan(pick)
    return sum_up(effects, np.where(trials.kept & won, pick, np.nan), launches + trials.launches * won)


def best_single_launch(effects: Floats, seed: int) -> tuple[Floats, Floats]:
    """True effect of what looked best in one launch each, and how much better than the baseline it looked."""
    races, candidates = effects.shape
    at = MACHINE.slot_s * np.arange(candidates + 1, dtype=float)
    lot = Lot(MACHINE, races, np.random.default_rng(seed))
    values = lot.measure(at, np.zeros(len(at), dtype=bool), runs=1)[..., 0]
    seen = values[:, 1:] + effects
    pick = seen.argmax(axis=1)
    return effects[range(races), pick], seen[range(races), pick] - values[:, 0]


def keep_the_best(effects: Floats, seed: int) -> Row:
    """Launch each once, keep what looks best."""
    pick, lead = best_single_launch(effects, seed)
    return sum_up(effects, np.where(lead > 0, pick, np.nan), np.full(len(effects), effects.shape[1] + 1.0))


def confirm_the_best(effects: Floats, seed: int) -> Row:
    """Launch each once, try what looks best."""
    pick, _ = best_single_launch(effects, seed)
    return confirmed(effects, pick, np.full(len(effects), effects.shape[1] + 1.0), seed + 1)


def race(effects: Floats, seed: int) -> Row:
    """Race, try the winner."""
    raced = race_many(effects, machine=MACHINE, seed=seed)
    own = effects[np.arange(len(effects)), raced.winner]
    pick = np.where(raced.winner == NOBODY, np.nan, own)
    return confirmed(effects, pick, raced.launches.astype(float), seed + 1)


def try_each(effects: Floats, seed: int) -> Row:
    """Try each candidate on its own, keep the best of those that are proven."""
    flat = effects.reshape(-1)
    trials = judge_many(flat, machine=MACHINE, profile=PROFILES["standard"], worthwhile=WORTHWHILE, seed=seed)
    claimed = np.where(trials.kept, trials.estimate, -np.inf).reshape(effects.shape)
    own = effects[np.arange(len(effects)), claimed.argmax(axis=1)]
    kept = np.where(np.isfinite(claimed.max(axis=1)), own, np.nan)
    return sum_up(effects, kept, trials.launches.reshape(effects.shape).sum(axis=1).astype(float))


WAYS: dict[str, Callable[[Floats, int], Row]] = {
    "one launch each, keep the best": keep_the_best,
    "one launch each, try the best": confirm_the_best,
    "**race, try the winner**": race,
    "try each": try_each,
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print("| candidates | way | launches | useless keeps | lost |\n| --: | --- | --: | --: | --: |")
    for candidates in (8, 16, 32):
        effects = draw_ideas(np.random.default_rng(options.seed), (options.races, candidates))
        for name, way in WAYS.items():
            launches, useless, lost = way(effects, options.seed)
            print(f"| {candidates} | {name} | {launches:.1f} | {useless:.1%} | {lost:.1%} |")


if __name__ == "__main__":
    main()
