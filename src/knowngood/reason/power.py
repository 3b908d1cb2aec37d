"""What a design can detect and what it costs, before the first launch."""

import math

import msgspec

from knowngood.model.hypothesis import Hypothesis
from knowngood.reason.noise import Noise
from knowngood.reason.profile import Profile, boundary

POWER_SCORE = 0.8416
"""Standard-normal score that is exceeded with 80 % probability, with the sign turned."""
LEAST_FREEDOM = 3
"""With less history the spread is mostly an assumption on the safe side; no further surcharge is due."""
REHEARSALS = 1000
"""Simulated trials behind a price."""


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial will cost.

    Attributes:
        mde: Smallest effect that is kept with 80 % probability, as a ratio minus one.
        launches: Expected launches.
        most_launches: Launches at most.
        minutes: Expected minutes.
        most_minutes: Minutes at most, as long as no run has to be repeated.
    """

    mde: float
    launches: float
    most_launches: int
    minutes: float
    most_minutes: float


def hoped_for(hypothesis: Hypothesis, *, metric: str, direction: str) -> float | None:
    """Largest gain that a hypothesis predicts, as a ratio minus one; None if it predicts nothing of the metric.

    Args:
        hypothesis: What is to be tested.
        metric: The metric that decides.
        direction: ``higher`` or ``lower`` is better; a predicted fall of 50 % of a latency is a gain of 100 %.
    """
    predicts = hypothesis.predicts
    if predicts is None or predicts.metric != metric:
        return None
    if direction == "higher":
        return predicts.high
    return math.inf if predicts.low <= -1 else 1 / (1 + predicts.low) - 1


def mde(profile: Profile, noise: Noise, worthwhile: float) -> float:
    """Smallest effect that a trial keeps with 80 % probability, as a ratio minus one.

    ``worthwhile / 4 + k scale / sqrt(pairs)``, in ln units. The textbook's k is boundary plus power score; the
    factors for the unknown variance with outliers, and for stopping early on a noisy machine, are fitted to simulations
    of the rule, which they meet within 10 % at four or more A/A pairs and a launch spread up to 10 %.

    Args:
        profile: Of the trial.
        noise: Noise floor of the machine.
        worthwhile: Smallest effect worth having, as a ratio minus one.
    """
    bar = boundary(profile.pairs, pairs=profile.pairs, alpha=profile.alpha, freedom=noise.freedom)
    unknown_variance = 1.1 + 0.7 / (max(noise.freedom, LEAST_FREEDOM) + 1)
    early_stop = 1 + min(15 * noise.scale**2, 0.45)
    k = (bar + POWER_SCORE) * unknown_variance * early_stop
    return math.expm1(math.log1p(worthwhile) / 4 + k * noise.scale / math.sqrt(profile.pairs))


def price(
    profile: Profile, noise: Noise, worthwhile: float, *, launch_s: float, run_s: float, effect: float = 0.0
) -> Price:
    """Rehearse the trial on a simulated machine with this noise and a ledger of five launches.

    Args:
        profile: Of the trial.
        noise: Noise floor of the machine.
        worthwhile: Smallest effect worth having, as a ratio minus one.
        launch_s: Seconds from one stop to the next readiness.
        run_s: Seconds of a run.
        effect: True effect that is assumed, as a ratio minus one: 0 for what most changes cost.
    """
    import numpy as np  # noqa: PLC0415  (numpy and scipy take 0.3 s; `mde` alone does without)

    from knowngood.reason.decide import Rule, Trials  # noqa: PLC0415
    from knowngood.reason.simulate import Lot, Machine, ledger_and_trial, play  # noqa: PLC0415

    spread = noise.scale / math.sqrt(2)
    machine = Machine(launch_cv=(spread, spread), run_cv=(0.0, 0.0), slot_s=launch_s + run_s)
    rule = Rule(profile=profile, worthwhile=math.log1p(worthwhile), freedom=noise.freedom)
    scale = np.full(REHEARSALS, noise.scale)
    lot = Lot(machine, REHEARSALS, np.random.default_rng(0))
    ledger, runs, at = ledger_and_trial(lot, np.full(REHEARSALS, math.log1p(effect)), profile.pairs, scale)
    outcomes = play(Trials(rule, scale, ledger), runs, at)
    launches, passes = float(outcomes.launches.mean()), float(outcomes.runs.mean())
    return Price(
        mde=mde(profile, noise, worthwhile),
        launches=launches,
        most_launches=2 * profile.pairs,
        minutes=(launches * launch_s + passes * run_s) / 60,
        most_minutes=2 * profile.pairs * (launch_s + run_s) / 60,
    )
