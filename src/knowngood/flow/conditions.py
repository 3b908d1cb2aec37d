"""Measuring a pair of launches until the host was the same for both, a bounded number of times."""

from collections.abc import Callable, Sequence

from knowngood.errors import CheckFailed
from knowngood.flow.bench import Bench
from knowngood.flow.facts import MEASURE_ANEW
from knowngood.model.evidence import LaunchRecord
from knowngood.reason.conditions import Condition, uneven

REPEATS = 2
MAKE_STEADY = (
    "make the machine steady, or raise the limit in [host_guard] ([verdict] foreign_cores for foreign load); "
    "`knowngood doctor` says what is seen here and names the busy processes"
)


def measure_even(
    measure: Callable[[int], list[LaunchRecord]],
    conditions: Sequence[Condition],
    *,
    pair: int,
    on_spoiled: Callable[[str], None],
) -> list[LaunchRecord]:
    """Measure a pair, and measure it again while the host was not the same for both launches.

    Args:
        measure: Measures it, given how often it was measured before; it may return a single launch, which is even.
        conditions: What has to be equal.
        pair: Its number, from 0, for messages.
        on_spoiled: Told why a pair does not count.

    Raises:
        CheckFailed: It stayed uneven.
    """
    why = ""
    for attempt in range(REPEATS + 1):
        launches = measure(attempt)
        why = uneven(launches, conditions)
        if not why:
            return launches
        on_spoiled(why)
    times = f"{REPEATS + 1} times"
    raise CheckFailed(
        f"the host was not the same for both launches of pair {pair + 1}, {times}: {why}", hint=MAKE_STEADY
    )


def require_same_packages(bench: Bench, launch: LaunchRecord) -> None:
    """Make sure that a launch of the baseline runs on the packages that the baseline was measured with.

    Raises:
        CheckFailed: Something was installed, removed or upgraded since.
    """
    baseline = bench.memory.state.baseline
    known = baseline.facts.get("packages", "") if baseline else ""
    if known and launch.packages and known != launch.packages:
        raise CheckFailed(
            f"the server's Python packages changed since the baseline: {known} became {launch.packages}",
            hint=MEASURE_ANEW,
        )
