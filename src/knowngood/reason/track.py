"""Follow a drifting machine through launches of both arms, to say after each what the change is worth so far.

Every launch is ``level + drift + effect [candidates only] + noise``; the drift is an Ornstein-Uhlenbeck process. A
Kalman filter with flat priors on level and effects gives the generalised least-squares estimate of the effect at a
constant price a launch. All values carry a leading axis of independent trials, so that simulations run the very code
that judges one trial.

Source: Durbin & Koopman 2012, *Time Series Analysis by State Space Methods*, ch. 4 and 5.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

DRIFT_SD = 0.025
"""Standard deviation of the machine's slow drift, in ln units."""
DRIFT_S = 3600.0
"""Time constant of the drift, in seconds."""
FLAT = 100.0
"""Variance that stands for "nothing known", in squared ln units."""
KNOWN = 1.0
"""Variance of the effect below which both arms have been seen."""
SURPRISE = 3.0
"""An innovation counts for at most so many of its standard deviations."""


class Track:
    """What is known of level, drift and effects of ``n`` independent trials.

    Args:
        scale: Standard deviation of the difference of two launches of the same arm, in ln units, shape (n,).
        candidates: Candidates of each trial, each with an effect of its own.
    """

    def __init__(self, scale: Floats, *, candidates: int = 1) -> None:
        n, size = len(scale), 2 + candidates
        self._launch_var = scale**2 / 2
        self._drift_var = np.minimum(DRIFT_SD, scale) ** 2
        self._state = np.zeros((n, size))
        self._cov = np.zeros((n, size, size))
        self._cov[:, range(size), range(size)] = FLAT
        self._cov[:, 1, 1] = self._drift_var
        self._at: float | None = None

    def observe(self, values: Floats, *, candidate: int, at: float) -> None:
        """Take one launch of every trial in.

        Args:
            values: ln of the metric, larger is better, shape (n,).
            candidate: What was launched: 0 is the baseline, 1 the first candidate.
            at: Seconds on one clock; a step backwards counts as no time at all.
        """
        if self._at is None:
            self._state[:, 0] = values
        else:
            self._pass_time(max(at - self._at, 0.0))
        self._at = at
        seen = np.zeros(self._state.shape[1])
        seen[:2] = 1.0
        if candidate:
            seen[1 + candidate] = 1.0
        reach = self._cov @ seen
        var = reach @ seen + self._launch_var
        bound = SURPRISE * np.sqrt(var)
        surprise = np.clip(values - self._state @ seen, -bound, bound)
        gain = reach / var[:, None]
        self._state = self._state + gain * surprise[:, None]
        self._cov = self._cov - gain[:, :, None] * reach[:, None, :]

    def _pass_time(self, seconds: float) -> None:
        stays = np.exp(-seconds / DRIFT_S)
        decay = np.ones(self._state.shape[1])
        decay[1] = stays
        self._state = self._state * decay
        self._cov = self._cov * np.outer(decay, decay)
        self._cov[:, 1, 1] += self._drift_var * (1 - stays**2)

    @property
    def effect(self) -> Floats:
        """Estimate of the first candidate's effect, in ln units, shape (n,)."""
        return self._state[:, 2]

    @property
    def effect_var(self) -> Floats:
        """Its variance; at least ``KNOWN`` while one arm has not been seen, shape (n,)."""
        return np.maximum(self._cov[:, 2, 2], 1e-12)

    @property
    def effects(self) -> tuple[Floats, Floats]:
        """Estimates of all effects, shape (n, candidates), and their covariance, shape (n, candidates, candidates)."""
        return self._state[:, 2:], self._cov[:, 2:, 2:]

    def narrow(self, index: NDArray[np.intp]) -> None:
        """Go on with some of the trials only.

        Args:
            index: Positions of the trials that go on.
        """
        self._launch_var, self._drift_var = self._launch_var[index], self._drift_var[index]
        self._state, self._cov = self._state[index], self._cov[index]
