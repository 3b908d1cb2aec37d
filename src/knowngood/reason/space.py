"""A knob space: which combinations there are, and what change set each one is."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence

from knowngood.model.change import Change, ChangeSet, Env, Flag, Setting, describe
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.launch import LaunchSpec, flag_values, spellings
from knowngood.model.race import Knob, Scalar, Space, Values
from knowngood.reason.findings import change_key

MOST_COMBINATIONS = 5000
"""Spaces up to this size are written out in full."""
BARE = ""
"""What a flag without a value stands at."""

Standing = Mapping[str, str | None]
"""Knob to what the baseline has it at, as text; None for a flag or variable that is not there."""


def stands_at(knob: Knob, spec: LaunchSpec, *, aliases: Mapping[str, str], settings: Mapping[str, str]) -> str | None:
    """What the baseline has a knob at.

    Args:
        knob: Which.
        spec: How the baseline is started.
        aliases: Spelling of a flag to its canonical spelling.
        settings: Setting to what it reads now.
    """
    match knob.kind:
        case "flag":
            found = flag_values(spec.argv, (*spellings(knob.name, aliases), knob.name))
            return (found[-1] or BARE) if found else None
        case "env":
            return spec.env.get(knob.name)
        case "setting":
            return settings.get(knob.name)


def is_at(value: Scalar, text: str | None) -> bool:
    """Whether a knob's value is what stands there already."""
    if isinstance(value, bool):
        return value == (text is not None)
    if text is None:
        return False
    try:
        return float(written(value)) == float(text)
    except ValueError:
        return written(value) == " ".join(text.split())


def written(value: Scalar) -> str:
    """A value as it stands on a command line."""
    return f"{value:.10g}" if isinstance(value, float) else str(value)


def member(knob: Knob, value: Scalar) -> Change:
    """The change that gives a knob a value."""
    match knob.kind:
        case "flag":
            if isinstance(value, bool):
                return Flag(flag=knob.name, remove=not value)
            return Flag(flag=knob.name, value=written(value))
        case "env":
            return Env(name=knob.name, value=written(value))
        case "setting":
            return Setting(name=knob.name, value=written(value), read=knob.read, write=knob.write)


def candidate(space: Space, values: Values, standing: Standing) -> Hypothesis:
    """The hypothesis that a combination is: only what differs from the baseline is in its change set."""
    changed = {
        k.name: values[k.name] for k in space.knobs if k.name in values and not is_at(values[k.name], standing[k.name])
    }
    name = ", ".join(shown(knob, value) for knob, value in changed.items())
    knobs = {knob.name: knob for knob in space.knobs}
    return Hypothesis(
        name=name or "baseline",
        claim=f"{space.claim or space.name}: {name or 'as it is'}",
        because=space.because,
        changes=ChangeSet(members=tuple(member(knobs[knob], value) for knob, value in changed.items())),
    )


def shown(knob: str, value: Scalar) -> str:
    """A knob with its value, for people."""
    bare = knob.lstrip("-")
    if isinstance(value, bool):
        return bare if value else f"no {bare}"
    return f"{bare}={written(value)}"


def takes_part(knob: Knob, values: Values, standing: Standing) -> bool:
    """Whether a knob may be varied, given those before it."""
    return all(holds(other, wanted, values, standing) for other, wanted in knob.when.items())


def holds(knob: str, wanted: Sequence[Scalar], values: Values, standing: Standing) -> bool:
    """Whether a knob has one of the wanted values, be it proposed or the baseline's."""
    if knob in values:
        return any(same(values[knob], one) for one in wanted)
    return any(is_at(one, standing[knob]) for one in wanted)


def same(one: Scalar, other: Scalar) -> bool:
    """Whether two values are the same on a command line: 4 is 4.0, but True is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and (one == other or written(one) == written(other))


def is_forbidden(space: Space, values: Values, standing: Standing) -> bool:
    """Whether a combination is one that the space forbids."""
    return any(all(holds(knob, wanted, values, standing) for knob, wanted in rule.items()) for rule in space.forbid)


def is_dead(changes: ChangeSet, dead: frozenset[str], guilty: frozenset[str]) -> bool:
    """Whether a change set is known not to work: as a whole, or because of one or two of its members.

    Args:
        changes: Of a combination.
        dead: Keys of change sets that are dead ends on this host.
        guilty: Members that were found guilty of a failure, in words.
    """
    members = changes.members
    if any(describe(one) in guilty for one in members):
        return True
    if not dead:
        return False
    parts = (ChangeSet(members=part) for size in (1, 2) for part in itertools.combinations(members, size))
    return any(change_key(part) in dead for part in (changes, *parts))


def grid(knob: Knob) -> tuple[Scalar, ...] | None:
    """All values of a knob; None if there are too many to count."""
    if knob.choices:
        return knob.choices
    if not knob.step or (knob.high - knob.low) / knob.step > MOST_COMBINATIONS:
        return None
    count = math.floor((knob.high - knob.low) / knob.step + 1e-9) + 1
    return tuple(knob.low + knob.step * at for at in range(count))


def combinations(space: Space, standing: Standing) -> tuple[Values, ...] | None:
    """All combinations that the space allows, in the order of its knobs; None if there are too many to count."""
    grids = [grid(knob) for knob in space.knobs]
    if any(one is None for one in grids) or math.prod(len(one or ()) for one in grids) > MOST_COMBINATIONS:
        return None
    return tuple(each for each in _below(space.knobs, {}, standing) if not is_forbidden(space, each, standing))


def _below(knobs: Sequence[Knob], values: Values, standing: Standing) -> Iterator[Values]:
    if not knobs:
        yield values
        return
    first, rest = knobs[0], knobs[1:]
    if not takes_part(first, values, standing):
        yield from _below(rest, values, standing)
        return
    for value in grid(first) or ():
        yield from _below(rest, {**values, first.name: value}, standing)


def as_it_is(space: Space, standing: Standing) -> Values | None:
    """The baseline as a point of the space; None if it lies outside."""
    values: Values = {}
    for knob in space.knobs:
        if takes_part(knob, values, standing):
            found = next((value for value in inside(knob, standing[knob.name])), None)
            if found is None:
                return None
            values[knob.name] = found
    return values


def inside(knob: Knob, text: str | None) -> Iterator[Scalar]:
    """The value of a knob that is what stands there, if it has one."""
    if knob.choices:
        yield from (choice for choice in knob.choices if is_at(choice, text))
        return
    try:
        value = float(text or "")
    except ValueError:
        return
    steps = (value - knob.low) / knob.step if knob.step else 0.0
    if knob.low <= value <= knob.high and math.isclose(steps, round(steps), abs_tol=1e-9):
        yield int(value) if is_whole(knob) else value


def is_whole(knob: Knob) -> bool:
    """Whether a range is one of whole numbers."""
    return all(isinstance(end, int) for end in (knob.low, knob.high, knob.step))
