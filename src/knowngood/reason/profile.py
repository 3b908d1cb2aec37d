"""How much proof a verdict asks for, and how long it may look for it."""

import math

import msgspec

from knowngood.errors import UsageError


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A trade between machine time, power and false keeps.

    Attributes:
        name: Name in ``[verdict] profile``.
        pairs: Most pairs of a candidate launch and a baseline launch.
        alpha: Bound on the chance of keeping a change that is worth a quarter of what is worthwhile.
        eta: A trial ends when the predicted chance of a keep falls below this.
    """

    name: str
    pairs: int
    alpha: float
    eta: float


PROFILES = {
    profile.name: profile
    for profile in (
        Profile(name="quick", pairs=6, alpha=0.01, eta=0.05),
        Profile(name="standard", pairs=12, alpha=0.01, eta=0.05),
        Profile(name="thorough", pairs=24, alpha=0.01, eta=0.05),
        Profile(name="explore", pairs=6, alpha=0.05, eta=0.10),
    )
}

EARLY_CAUTION = 0.1
"""Wang-Tsiatis: the boundary at pair n of N is C (n/N)^-0.1, a little higher early on; 0 would be Pocock's."""

# C by (pairs, alpha), one entry for each 0..8 degrees of freedom of history: the 1 - alpha quantile of the largest
# boundary-scaled score of 10^6 null trials. `tests/sim/test_boundary.py` computes them anew.
_CONSTANTS = {
    (6, 0.01): (2.67, 2.65, 2.64, 2.63, 2.62, 2.62, 2.62, 2.62, 2.62),
    (6, 0.05): (2.06, 2.03, 2.01, 2.01, 2.00, 1.99, 1.99, 1.99, 1.99),
    (12, 0.01): (2.76, 2.74, 2.73, 2.73, 2.72, 2.72, 2.71, 2.71, 2.71),
    (12, 0.05): (2.17, 2.15, 2.13, 2.13, 2.11, 2.11, 2.11, 2.11, 2.11),
    (24, 0.01): (2.81, 2.80, 2.79, 2.79, 2.79, 2.78, 2.78, 2.78, 2.77),
    (24, 0.05): (2.23, 2.21, 2.21, 2.20, 2.20, 2.19, 2.19, 2.19, 2.19),
}


def boundary(pair: int, *, pairs: int, alpha: float, freedom: int) -> float:
    """Standard-normal score that a comparison must reach at a pair.

    Args:
        pair: Pairs compared so far.
        pairs: Most pairs of the trial: 6, 12 or 24.
        alpha: Chance of ever reaching the boundary without an effect: 0.01 or 0.05.
        freedom: Degrees of freedom of the machine's history, 0 to 8.
    """
    return _CONSTANTS[pairs, alpha][freedom] * math.pow(pair / pairs, -EARLY_CAUTION)


def find_profile(name: str) -> Profile:
    """Look a profile up.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in PROFILES:
        raise UsageError(f"there is no verdict profile {name!r}", hint=f"use one of: {', '.join(PROFILES)}")
    return PROFILES[name]
