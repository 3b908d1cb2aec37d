"""Host conditions: what went on around a measurement, and whether it was the same for both arms of a pair.

A condition that is the same for both only adds noise, which the rule sees. One that differs takes sides, so the pair is
worth nothing, whatever its numbers are.
"""

import statistics
from collections.abc import Mapping, Sequence

import msgspec

from knowngood.model.evidence import LaunchRecord
from knowngood.reason.load import foreign_cores

BOTH = 2


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be equal.

    Attributes:
        name: Metric of a run that tells it, and its key in ``[host_guard]``.
        words: How a value is said.
        limit: Largest difference allowed, in the metric's unit.
        slack: Further difference allowed, as a share of the smaller value: for what is steady but never exactly equal.
        is_setting: It is set, not suffered, so a change set with settings may mean to change it.
    """

    name: str
    words: str
    limit: float = 0.0
    slack: float = 0.0
    is_setting: bool = False

    def value(self, launch: LaunchRecord) -> float | None:
        """What a launch saw, the worst of its runs; None if its host does not tell."""
        if self.name == "foreign_cores":
            return foreign_cores(launch)
        seen = [run.metrics[self.name] for run in launch.runs if self.name in run.metrics]
        # A later run of a launch is later by nature.
        return min(seen) if seen and self.name == "server_age_s" else max(seen, default=None)

    def is_worse(self, one: float | None, other: float | None) -> bool:
        """Whether a value is further from another than allowed, to the bad side where there is one."""
        has_sides = not self.is_setting and self.name != "server_age_s"
        return self.differs(one, other) and (not has_sides or (one or 0.0) > (other or 0.0))

    def differs(self, one: float | None, other: float | None) -> bool:
        """Whether two values are further apart than allowed; a value that is not known differs from none."""
        if one is None or other is None:
            return False
        return abs(one - other) > self.limit + self.slack * min(one, other)


ALL: tuple[Condition, ...] = (
    Condition(name="foreign_cores", words="{:.2f} cores of foreign load"),
    Condition(name="swap_mb", words="{:.0f} MB swapped", slack=0.5),
    Condition(name="memory_wait", words="{:.0%} of the time waiting for memory", slack=0.5),
    Condition(name="cpu_throttles", words="CPU slowed by heat {:.0f} times", slack=0.5),
    Condition(name="gpu_slowed", words="{:.0f} accelerators slowed by heat or supply"),
    Condition(name="foreign_processes", words="{:.0f} processes of others on accelerators"),
    Condition(name="server_age_s", words="measured {:.0f} s after the server was ready", slack=0.5),
    Condition(name="cpu_limit_mhz", words="CPU clock limited to {:.0f} MHz", is_setting=True),
    Condition(name="gpu_limit_w", words="accelerator limited to {:.0f} W", is_setting=True),
)


def watched(limits: Mapping[str, float], *, sets_something: bool = False) -> tuple[Condition, ...]:
    """Conditions with their limits.

    Args:
        limits: Name of each condition to the largest difference allowed.
        sets_something: The change set has settings: what can be set is not held against it.
    """
    return tuple(
        msgspec.structs.replace(one, limit=limits[one.name])
        for one in ALL
        if one.name in limits and not (one.is_setting and sets_something)
    )


def uneven(launches: Sequence[LaunchRecord], conditions: Sequence[Condition]) -> str:
    """Say what was not the same for the launches of a pair; empty if all was, or if there is only one launch."""
    if len(launches) < BOTH:
        return ""
    one, other = launches
    found = [each for each in conditions if each.differs(each.value(one), each.value(other))]
    said = [", ".join(f"{launch.arm} {each.words.format(each.value(launch))}" for launch in launches) for each in found]
    notes = {note for launch in launches for run in launch.runs for note in run.notes}
    return "; ".join([*said, *sorted(notes)]) if said else ""


def unlike(launch: LaunchRecord, others: Sequence[LaunchRecord], conditions: Sequence[Condition]) -> str:
    """Say in what a launch saw a worse host than the median of ``others``; empty if it did not.

    A quieter one is what was wanted all along.
    """
    said: list[str] = []
    for each in conditions:
        seen = each.value(launch)
        known = [value for other in others if (value := each.value(other)) is not None]
        if known and each.is_worse(seen, statistics.median(known)):
            said.append(f"{each.words.format(seen)}, unlike the launches before")
    return "; ".join(said)
