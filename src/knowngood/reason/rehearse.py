"""Races on simulated machines: what they cost, and what they find."""

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from knowngood.reason.noise import Noise
from knowngood.reason.power import price
from knowngood.reason.profile import Profile
from knowngood.reason.race import BASELINE, BLOCKS, REFERENCE_EVERY, Race
from knowngood.reason.simulate import RUNS, USUAL_MEMORY, Lot, Machine, Memory
from knowngood.reason.track import Floats

NOBODY = -1
REHEARSALS = 60
"""Simulated races behind a price."""
IDEAS = (0.60, 0.20, 0.12, 0.08)
"""Shares of ideas that do nothing, that hurt, that gain 1 to 3 %, and that gain 3 to 12 %."""


class Raced(msgspec.Struct, frozen=True, kw_only=True):
    """How races ended; one entry a race.

    Attributes:
        winner: Number of the winner, from 0; ``NOBODY`` for none.
        launches: Launches it took, those of the baseline included.
        runs: Runs it took.
    """

    winner: NDArray[np.intp]
    launches: NDArray[np.intp]
    runs: NDArray[np.intp]


class RacePrice(msgspec.Struct, frozen=True, kw_only=True):
    """What a race with its confirming trial will cost.

    Attributes:
        candidates: How many race.
        launches: Expected launches.
        most_launches: Launches at most.
        minutes: Expected minutes.
        most_minutes: Minutes at most, as long as no run has to be repeated.
    """

    candidates: int
    launches: float
    most_launches: int
    minutes: float
    most_minutes: float


def draw_ideas(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """True effects of usual ideas, in ln units."""
    kind = rng.choice(len(IDEAS), size=shape, p=IDEAS)
    draws = [
        rng.normal(0, 0.003, shape),
        -rng.exponential(0.04, shape),
        rng.uniform(0.01, 0.03, shape),
        rng.uniform(0.03, 0.12, shape),
    ]
    return np.choose(kind, draws)


def race_many(effects: Floats, *, machine: Machine, memory: Memory = USUAL_MEMORY, seed: int = 1) -> Raced:
    """Race candidates on each of many machines.

    Args:
        effects: True effects in ln units, shape (machines, candidates).
        machine: Kind of the machines.
        memory: What is known of each machine.
        seed: Of all noise.
    """
    count, candidates = effects.shape
    lot = Lot(machine, count, np.random.default_rng(seed))
    aa = np.arange(max(2 * memory.aa_pairs, 1), dtype=float)
    pairs = lot.measure(machine.slot_s * aa, np.zeros(len(aa), dtype=bool), runs=1)[..., 0]
    noise = (pairs[:, 0::2] - pairs[:, 1::2])[:, : memory.aa_pairs] if memory.aa_pairs else np.empty((count, 0))
    past = -machine.slot_s * (2 * np.arange(memory.ledger, dtype=float)[::-1] + 1) - memory.stale_s
    at = machine.slot_s * np.arange(most_launches(candidates), dtype=float)
    values = lot.measure(np.concatenate([past, at]), np.zeros(len(past) + len(at), dtype=bool))
    winner = np.full(count, NOBODY, dtype=np.intp)
    launches, runs = np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
    for i in range(count):
        before = list(zip(past.tolist(), np.exp(values[i, : len(past), 0]).tolist(), strict=True))
        rule = Race([str(name) for name in range(candidates)], at=0.0, noise=noise[i].tolist(), ledger=before)
        while (name := rule.next) is not None:
            own = 0.0 if name == BASELINE else float(effects[i, int(name)])
            seen = np.exp(values[i, len(past) + launches[i]] + own).tolist()
            used = 1
            while used < RUNS and rule.needs_verification(name, seen[:used]):
                used += 1
            rule.add(name, float(np.median(seen[:used])), at=float(at[launches[i]]))
            launches[i] += 1
            runs[i] += used
        winner[i] = int(rule.winner) if rule.winner else NOBODY
    return Raced(winner=winner, launches=launches, runs=runs)


def most_launches(candidates: int) -> int:
    """Launches of a race at most, without the confirming trial."""
    own = BLOCKS * candidates
    return own + math.ceil(own / REFERENCE_EVERY) + 1


def race_price(
    profile: Profile, noise: Noise, worthwhile: float, *, candidates: int, launch_s: float, run_s: float
) -> RacePrice:
    """Rehearse a race of usual ideas, and the trial of its winner.

    Args:
        profile: Of the confirming trial.
        noise: Noise floor of the machine.
        worthwhile: Smallest effect worth having, as a ratio minus one.
        candidates: How many race.
        launch_s: Seconds from one stop to the next readiness.
        run_s: Seconds of a run.
    """
    spread = noise.scale / math.sqrt(2)
    machine = Machine(launch_cv=(spread, spread), run_cv=(0.0, 0.0), slot_s=launch_s + run_s)
    effects = draw_ideas(np.random.default_rng(0), (REHEARSALS, candidates))
    raced = race_many(effects, machine=machine)
    won = raced.winner != NOBODY
    gain = float(np.expm1(effects[won, raced.winner[won]]).mean()) if won.any() else 0.0
    trial = price(profile, noise, worthwhile, launch_s=launch_s, run_s=run_s, effect=gain)
    chance = float(won.mean())
    most = most_launches(candidates) + trial.most_launches
    return RacePrice(
        candidates=candidates,
        launches=float(raced.launches.mean()) + chance * trial.launches,
        most_launches=most,
        minutes=float(raced.launches.mean() * launch_s + raced.runs.mean() * run_s) / 60 + chance * trial.minutes,
        most_minutes=most * (launch_s + run_s) / 60,
    )
