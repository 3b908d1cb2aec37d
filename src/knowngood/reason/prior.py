"""What changes to inference servers are worth before anybody measures: most next to nothing, some a lot.

Four in five effects come from a normal distribution with a spread of 5 %, one in five from one with 50 %. The narrow
part takes the luck out of small winners; the wide part leaves +50 % alone.
"""

import numpy as np
from scipy.special import ndtr

from knowngood.reason.track import Floats

SHARES = (0.8, 0.2)
SPREADS = (0.05, 0.50)


def _components(effect: Floats, var: Floats) -> list[tuple[Floats, Floats, Floats]]:
    """Posterior weight, mean and variance of each part of the mixture."""
    parts: list[tuple[Floats, Floats, Floats]] = []
    for share, spread in zip(SHARES, SPREADS, strict=True):
        total = spread**2 + var
        log_weight = np.log(share) - 0.5 * (np.log(total) + effect**2 / total)
        trust = spread**2 / total
        parts.append((log_weight, trust * effect, trust * var))
    top = np.maximum(parts[0][0], parts[1][0])
    weights = [np.exp(part[0] - top) for part in parts]
    norm = weights[0] + weights[1]
    return [(weight / norm, mean, spread) for weight, (_, mean, spread) in zip(weights, parts, strict=True)]


def shrink(effect: Floats, var: Floats) -> Floats:
    """Expected effect, given a measurement and its variance.

    The mean of a winner is biased upward, because only lucky measurements win; the expectation is not.
    """
    (w0, m0, _), (w1, m1, _) = _components(effect, var)
    return w0 * m0 + w1 * m1


def chance_above(
    bar: Floats, *, effect: Floats, var: Floats, done: Floats | float, share_left: float, noise_var: Floats
) -> Floats:
    """Probability that a mean, finished by future measurements, ends above a bar.

    Args:
        bar: The bar for the finished mean.
        effect: Measurement of the effect so far.
        var: Its variance.
        done: Part of the finished mean that stands already.
        share_left: Weight of the future measurements in the finished mean.
        noise_var: Variance of the future measurements' mean about the true effect.
    """
    chance = np.zeros_like(effect)
    for weight, mean, spread in _components(effect, var):
        sd = share_left * np.sqrt(spread + noise_var)
        chance = chance + weight * ndtr((done + share_left * mean - bar) / sd)
    return chance
