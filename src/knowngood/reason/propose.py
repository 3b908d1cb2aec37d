"""What to launch next out of a knob space. Optuna proposes; a space that fits into the budget is launched in full.

The study is built anew from what was measured each time, with a seed that depends on its length only: a search that was
cut off goes on as if it had not been.
"""

import random
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

import msgspec

from knowngood.errors import UsageError
from knowngood.model.race import Knob, Scalar, Space, Values
from knowngood.reason.space import Standing, as_it_is, combinations, is_whole, takes_part

if TYPE_CHECKING:  # an optional extra
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import Trial

INSTALL = 'pip install "knowngood[knobs]"'
ATTEMPTS = 50
"""Proposals thrown away before one is drawn from those that are left."""


class Tried(msgspec.Struct, frozen=True, kw_only=True):
    """A combination that was launched: its effect in ln units, None if it failed."""

    values: Values
    effect: float | None


def require_optuna(space: Space, standing: Standing, *, launches_left: int, is_open: Callable[[Values], bool]) -> None:
    """Refuse a space that needs Optuna where there is none.

    Raises:
        UsageError: There are more combinations than may be launched, and Optuna is not installed.
    """
    everything = combinations(space, standing)
    count = None if everything is None else sum(map(is_open, everything))
    if count is not None and count <= launches_left:
        return
    if find_spec("optuna") is None:
        size = "endlessly many" if count is None else str(count)
        raise UsageError(
            f"{space.name} has {size} combinations for {launches_left} launches, and Optuna, which chooses among "
            "them, is not installed",
            hint=f"{INSTALL}; or allow as many launches as there are combinations",
        )


def propose(
    space: Space, tried: Sequence[Tried], standing: Standing, *, launches_left: int, is_open: Callable[[Values], bool]
) -> Values | None:
    """Choose the combination to launch next.

    Args:
        space: Where from.
        tried: What was launched, in order.
        standing: What the baseline has each knob at.
        launches_left: Launches that may still be spent.
        is_open: Whether a combination may be proposed: it is new, and not known to fail.

    Returns:
        The combination; None if nothing is left.
    """
    everything = combinations(space, standing)
    left = None if everything is None else [each for each in everything if is_open(each)]
    chance = random.Random(len(tried))  # noqa: S311  (no secret)
    if left is not None and len(left) <= launches_left:
        return chance.choice(left) if left else None
    study = study_of(space, tried, standing)
    for _ in range(ATTEMPTS):
        values = suggest(study.ask(), space, standing)
        if is_open(values):
            return values
    return chance.choice(left) if left else None


def study_of(space: Space, tried: Sequence[Tried], standing: Standing) -> "Study":
    """An Optuna study that knows all that was measured, and that the baseline is worth nothing more than itself."""
    import optuna  # noqa: PLC0415  (an optional extra)

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=len(tried)))
    own = as_it_is(space, standing)
    known = [Tried(values=own, effect=0.0)] if own is not None else []
    knobs = {knob.name: knob for knob in space.knobs}
    for one in (*known, *tried):
        state = optuna.trial.TrialState.FAIL if one.effect is None else optuna.trial.TrialState.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(
                state=state,
                value=one.effect,
                params=dict(one.values),
                distributions={name: distribution(knobs[name]) for name in one.values},
            )
        )
    return study


def suggest(trial: "Trial", space: Space, standing: Standing) -> Values:
    """Ask for a value of each knob that takes part."""
    values: Values = {}
    for knob in space.knobs:
        if takes_part(knob, values, standing):
            values[knob.name] = suggest_one(trial, knob)
    return values


def suggest_one(trial: "Trial", knob: Knob) -> Scalar:
    """Ask for a value of one knob."""
    if knob.choices:
        at: int = knob.choices.index(trial.suggest_categorical(knob.name, knob.choices))
        return knob.choices[at]
    if is_whole(knob):
        low, high, step = int(knob.low), int(knob.high), int(knob.step)
        return trial.suggest_int(knob.name, low, high, step=step, log=knob.log)
    return trial.suggest_float(knob.name, knob.low, knob.high, step=knob.step or None, log=knob.log)


def distribution(knob: Knob) -> "BaseDistribution":
    """What Optuna calls a knob's values."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution  # noqa: PLC0415

    if knob.choices:
        return CategoricalDistribution(knob.choices)
    if is_whole(knob):
        return IntDistribution(int(knob.low), int(knob.high), log=knob.log, step=int(knob.step))
    return FloatDistribution(float(knob.low), float(knob.high), log=knob.log, step=float(knob.step) or None)
