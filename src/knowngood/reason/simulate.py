"""A simulated machine, and the rule played on it thousands of times: what a design costs and how often it errs.

A launch has an effect of its own (placement, clocks, autotuning) that all its runs share; runs add noise; the machine
drifts; now and then a run loses 10 to 30 %. All values are ln of a metric of which more is better.
"""

import msgspec
import numpy as np
from numpy.typing import NDArray

from knowngood.reason.decide import ORDER, SUSPICIOUS, Bools, Rule, Trials
from knowngood.reason.noise import noise_floor
from knowngood.reason.profile import Profile
from knowngood.reason.track import Floats

RUNS = 3
"""Runs of a launch that verification may use."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """How launches and runs scatter. A range is drawn from uniformly, once for each simulated machine.

    Attributes:
        launch_cv: Standard deviation between launches, in ln units: smallest, largest.
        run_cv: The same between runs of one launch.
        drift_sd: Standard deviation of the drift, an Ornstein-Uhlenbeck process.
        drift_s: Its time constant, in seconds.
        outliers: Share of runs that lose something.
        bad_launches: Share of launches that lose something in all their runs.
        loss: Smallest and largest loss, as a share.
        heavy_tails: Launch effects from a t distribution with 4 degrees of freedom instead of a normal one.
        candidate_noise: Factor on the candidate's launch and run noise.
        trend: Steady change, in ln units an hour.
        step: Jump of the machine between ledger and trial.
        slot_s: Seconds from one launch to the next.
    """

    launch_cv: tuple[float, float] = (0.01, 0.03)
    run_cv: tuple[float, float] = (0.01, 0.02)
    drift_sd: float = 0.025
    drift_s: float = 3600.0
    outliers: float = 0.02
    bad_launches: float = 0.0
    loss: tuple[float, float] = (0.10, 0.30)
    heavy_tails: bool = False
    candidate_noise: float = 1.0
    trend: float = 0.0
    step: float = 0.0
    slot_s: float = 180.0


TYPICAL = Machine(launch_cv=(0.02, 0.02), run_cv=(0.015, 0.015))


class Memory(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a machine before a trial.

    Attributes:
        aa_pairs: A/A pairs in its history.
        ledger: Recent baseline launches of earlier trials.
        stale_s: Extra age of the ledger, in seconds.
    """

    aa_pairs: int = 10
    ledger: int = 5
    stale_s: float = 0.0


USUAL_MEMORY = Memory()


class Outcomes(msgspec.Struct, frozen=True, kw_only=True):
    """How trials ended; one entry a trial.

    Attributes:
        kept: Whether it was a keep.
        launches: Launches it took.
        runs: Runs it took.
        estimate: Reported effect, in ln units.
        low: Lower end of its interval.
        high: Upper end of its interval.
    """

    kept: Bools
    launches: NDArray[np.intp]
    runs: NDArray[np.intp]
    estimate: Floats
    low: Floats
    high: Floats


class Lot:
    """Many simulated machines of one kind.

    Args:
        machine: Their kind.
        count: How many.
        rng: Source of their differences and of all their noise.
    """

    def __init__(self, machine: Machine, count: int, rng: np.random.Generator) -> None:
        self.machine = machine
        self._rng = rng
        self._launch_cv = rng.uniform(*machine.launch_cv, size=count)
        self._run_cv = rng.uniform(*machine.run_cv, size=count)

    def measure(self, at: Floats, candidate: Bools, *, runs: int = RUNS) -> Floats:
        """Launch at the given times and run the benchmark.

        Args:
            at: Start of each launch in seconds, ascending.
            candidate: Which launches are the candidate's.
            runs: Runs in each launch.

        Returns:
            Values without any effect of the candidate, shape (machines, launches, runs).
        """
        kind, rng = self.machine, self._rng
        shape = (len(self._launch_cv), len(at))
        noise = np.where(candidate, kind.candidate_noise, 1.0)
        bell = rng.standard_t(4, shape) / np.sqrt(2) if kind.heavy_tails else rng.standard_normal(shape)
        launch = self._drift(at) + kind.trend * at / 3600 + bell * self._launch_cv[:, None] * noise
        launch += self._losses(shape, kind.bad_launches)
        run = rng.standard_normal((*shape, runs)) * self._run_cv[:, None, None] * noise[:, None]
        return launch[:, :, None] + run + self._losses((*shape, runs), kind.outliers)

    def _drift(self, at: Floats) -> Floats:
        drift = np.empty((len(self._launch_cv), len(at)))
        drift[:, 0] = self.machine.drift_sd * self._rng.standard_normal(len(drift))
        for i, gap in enumerate(np.diff(at), start=1):
            stays = np.exp(-gap / self.machine.drift_s)
            fresh = self.machine.drift_sd * np.sqrt(1 - stays**2) * self._rng.standard_normal(len(drift))
            drift[:, i] = stays * drift[:, i - 1] + fresh
        return drift

    def _losses(self, shape: tuple[int, ...], share: float) -> Floats:
        lost = np.zeros(shape)
        hit = self._rng.random(shape) < share
        lost[hit] = np.log1p(-self._rng.uniform(*self.machine.loss, size=int(hit.sum())))
        return lost


def verified(runs: Floats, *, below: Floats) -> Floats:
    """Values of launches: the first run, or the median of all if the first is below a bound."""
    return np.where(runs[..., 0] < below, np.median(runs, axis=-1), runs[..., 0])


def play(trials: Trials, runs: Floats, at: Floats) -> Outcomes:
    """Give every trial its launches until it ends.

    Args:
        trials: Trials at their beginning; used up.
        runs: ln values, shape (trials, launches, runs), the candidate's effect included.
        at: Start of each launch, in seconds.
    """
    count = len(runs)
    kept, launches, used = np.zeros(count, dtype=bool), np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
    estimate, low, high = np.zeros(count), np.zeros(count), np.zeros(count)
    going = np.arange(count)
    for i, start in enumerate(at):
        now = runs[going, i]
        below = trials.suspicious_below()
        used[going] += np.where(now[:, 0] < below, RUNS, 1)
        look = trials.add(verified(now, below=below), at=float(start))
        ended = look.keep | look.stop
        done = going[ended]
        kept[done], launches[done] = look.keep[ended], i + 1
        report = trials.report(look.keep)
        estimate[done], low[done], high[done] = report.estimate[ended], report.low[ended], report.high[ended]
        going = going[~ended]
        if not len(going):
            break
        trials.narrow(np.flatnonzero(~ended))
    return Outcomes(kept=kept, launches=launches, runs=used, estimate=estimate, low=low, high=high)


def judge_many(
    effects: Floats,
    *,
    machine: Machine,
    profile: Profile,
    worthwhile: float = 0.02,
    memory: Memory = USUAL_MEMORY,
    seed: int = 1,
) -> Outcomes:
    """Try one candidate on each of many machines.

    Args:
        effects: True effect on each machine, in ln units.
        machine: Kind of the machines.
        profile: Of the trials.
        worthwhile: Smallest effect worth having, as a ratio minus one.
        memory: What is known of each machine.
        seed: Of all noise.
    """
    lot = Lot(machine, len(effects), np.random.default_rng(seed))
    scale, freedom = learn_scale(lot, memory.aa_pairs)
    ledger, runs, at = ledger_and_trial(lot, effects, profile.pairs, scale, memory)
    rule = Rule(profile=profile, worthwhile=float(np.log1p(worthwhile)), freedom=freedom)
    return play(Trials(rule, scale, ledger), runs, at)


def ledger_and_trial(
    lot: Lot, effects: Floats, pairs: int, scale: Floats, memory: Memory = USUAL_MEMORY, *, runs: int = RUNS
) -> tuple[list[tuple[float, Floats]], Floats, Floats]:
    """Measure what a trial sees, to its last possible launch.

    Args:
        lot: The machines.
        effects: True effect on each machine, in ln units.
        pairs: Most pairs of the trial.
        scale: Spread of a pair on each machine, for the verification of the ledger.
        memory: How long the ledger is, and how old.
        runs: Runs of each launch; verification uses the first three.

    Returns:
        The ledger; the trial's runs, shape (machines, launches, runs); the times of its launches.
    """
    slot, count = lot.machine.slot_s, memory.ledger
    order = np.resize(np.array(ORDER), 2 * pairs)
    past = -slot * (2 * np.arange(count, dtype=float)[::-1] + 1) - memory.stale_s
    at = slot * np.arange(len(order), dtype=float)
    values = lot.measure(np.concatenate([past, at]), np.concatenate([np.zeros(count, dtype=bool), order]), runs=runs)
    before, after = values[:, :count, :RUNS], values[:, count:] + lot.machine.step
    after = after + (effects[:, None] * order)[:, :, None]
    if not count:
        return [], after, at
    usual = np.median(before[..., 0], axis=1, keepdims=True) - SUSPICIOUS * scale[:, None]
    return list(zip(past.tolist(), verified(before, below=usual).T, strict=True)), after, at


def learn_scale(lot: Lot, pairs: int) -> tuple[Floats, int]:
    """Estimate the noise floor of every machine from its own A/A pairs.

    Returns:
        Spread of a pair on each machine, and the degrees of freedom behind all of them.
    """
    at = lot.machine.slot_s * np.arange(max(2 * pairs, 1), dtype=float)
    runs = lot.measure(at, np.zeros(len(at), dtype=bool))
    middle = np.median(runs[..., 0], axis=1, keepdims=True)
    spread = 1.4826 * np.median(np.abs(runs[..., 0] - middle), axis=1, keepdims=True)
    values = verified(runs, below=middle - 3 * spread)
    differences = (values[:, 0::2] - values[:, 1::2])[:, :pairs] if pairs else np.empty((len(values), 0))
    floors = [noise_floor(row) for row in differences.tolist()]
    return np.array([floor.scale for floor in floors]), floors[0].freedom
