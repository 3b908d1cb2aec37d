"""Which item of a change set makes it fail: tells which subset to launch next, takes what came out, names the culprits.

A passing set grows by binary splitting: as long as it fails together with all that is pending, the first item that it
cannot take is found by halving and put aside. What was put aside is tried again at the end, because what it needs may
have been taken since. Every outcome is remembered, so nothing is launched twice, and the same outcomes give the same
questions: a search can be cut off anywhere and built anew.

Source: binary splitting for group testing (Hwang 1972), made safe against items that need each other; what is blamed is
minimal (QuickXplain, Junker 2004), and only failures of the same kind count (delta debugging, Zeller 1999).
"""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from itertools import combinations

import msgspec

from knowngood.errors import UsageError
from knowngood.model.isolation import Outcome, Subset

Asking = Generator[Subset, Outcome, "Found"]
Step = Generator[Subset, Outcome, tuple[list[int], int]]

LEAST_TO_DROP_ONE = 3
"""Items left over from which on leaving one of them out may save the rest."""


class Blame(msgspec.Struct, frozen=True, kw_only=True):
    """A smallest set of items that fails.

    Attributes:
        items: Their numbers; the first one was left out, the others are kept.
        outcome: ``failed``, or ``unresolved`` for an item that the rest cannot take for another reason.
    """

    items: tuple[int, ...]
    outcome: Outcome


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a search found.

    Attributes:
        survivors: Items that start together; this very set was launched, unless it is empty.
        blames: One for each item that was left out.
    """

    survivors: tuple[int, ...]
    blames: tuple[Blame, ...]


class CulpritSearch:
    """Search for the culprits among items that fail together, while none of them passes.

    It is pure: the same outcomes lead to the same questions.

    Example:
        >>> search = CulpritSearch(6)
        >>> while (subset := search.next) is not None:
        ...     search.add(launch(subset))
        >>> search.found.blames

    Args:
        count: Number of items, the riskiest last.
        suspects: Those that the failure's log names; they are parted from the rest first.
        known: Outcomes that are known already.

    Raises:
        UsageError: There is nothing to choose from.
    """

    def __init__(
        self, count: int, *, suspects: Collection[int] = (), known: Mapping[Subset, Outcome] | None = None
    ) -> None:
        if count < 1:
            raise UsageError("a change set without members cannot be taken apart", hint="name one that has members")
        full = frozenset(range(count))
        self._outcomes: dict[Subset, Outcome] = {frozenset(): "passed", full: "failed", **(known or {})}
        self._search = search(count, suspects)
        self._next: Subset | None = None
        self._found: Found | None = None
        self._go_on(None)

    @property
    def next(self) -> Subset | None:
        """Items to launch together next; None when the culprits are found."""
        return self._next

    @property
    def found(self) -> Found | None:
        """What was found; None as long as launches are wanted."""
        return self._found

    def add(self, outcome: Outcome) -> None:
        """Take in what came out of launching ``next``.

        Raises:
            UsageError: The search is over.
        """
        if self._next is None:
            raise UsageError("an outcome was added to a search that is over", hint="stop when next is None")
        self._outcomes[self._next] = outcome
        self._go_on(outcome)

    def _go_on(self, outcome: Outcome | None) -> None:
        try:
            wanted = next(self._search) if outcome is None else self._search.send(outcome)
            while wanted in self._outcomes:
                wanted = self._search.send(self._outcomes[wanted])
            self._next = wanted
        except StopIteration as end:
            self._next, self._found = None, end.value


def search(count: int, suspects: Collection[int]) -> Asking:
    """Grow a passing set, then find out what is wrong with each item that it does not take."""
    base: list[int] = []
    left: dict[int, tuple[int, ...]] = {}
    pending: list[int] = sorted(range(count), key=lambda item: item in suspects)
    while pending and (yield frozenset([*base, *pending])) != "passed":
        base, bad = yield from first_bad(base, pending, suspects)
        left[bad] = tuple(base)
        pending = [item for item in pending if item not in base and item != bad]
    base += pending
    base = yield from try_again(base, left)
    blames: tuple[Blame, ...] = ()
    for item in [item for item in left if item not in base]:
        blames = (*blames, (yield from explain(item, [left[item], base], suspects)))
    return Found(survivors=tuple(sorted(base)), blames=blames)


def first_bad(base: list[int], pending: Sequence[int], suspects: Collection[int]) -> Step:
    """Find the first pending item that the base cannot take, growing the base by those before it.

    Args:
        base: Passes.
        pending: Does not, together with the base.
        suspects: Those at the end of ``pending`` that are parted from the others first.

    Returns:
        The base with all pending items before the bad one, and the bad one.
    """
    base, part = list(base), list(pending)
    while len(part) > 1:
        innocent = sum(item not in suspects for item in part)
        cut = innocent if 0 < innocent < len(part) else len(part) // 2
        if (yield frozenset([*base, *part[:cut]])) == "passed":
            base, part = base + part[:cut], part[cut:]
        else:
            part = part[:cut]
    return base, part[0]


def try_again(base: list[int], left: dict[int, tuple[int, ...]]) -> Generator[Subset, Outcome, list[int]]:
    """Take what was left out after all, where what it needs has been taken since.

    Args:
        base: Passes.
        left: Item that was left out, to the set that it failed with; that set is brought up to date.

    Returns:
        The base with what it takes.
    """
    base = list(base)
    others: list[int] = []
    grows = True
    while grows:
        grows = False
        others = []
        for item in [item for item in left if item not in base]:
            outcome = yield frozenset([*base, item])
            if outcome == "passed":
                base, grows = [*base, item], True
            elif outcome == "unresolved":
                others.append(item)
    # Items that only work together fail alone, and in another way than the culprit.
    if len(others) > 1 and (yield frozenset([*base, *others])) == "passed":
        base += others
    rest = [item for item in left if item not in base]
    if len(rest) >= LEAST_TO_DROP_ONE:
        for item in rest:
            kept = [*base, *(one for one in rest if one != item)]
            if (yield frozenset(kept)) == "passed":
                return kept
    return base


def explain(
    item: int, contexts: Sequence[Sequence[int]], suspects: Collection[int]
) -> Generator[Subset, Outcome, Blame]:
    """Find a smallest set with an item that fails: alone if it can, else with as few others as need be.

    Args:
        item: It was left out.
        contexts: Sets that pass, and do not with the item; the outcomes are known.
        suspects: Items that the failure's log names; they are looked at first.
    """
    needed, among = [item], list[int]()
    if (yield frozenset(needed)) != "failed":
        for context in contexts:
            if (yield frozenset([item, *context])) == "failed":
                among = sorted(context, key=lambda one: one not in suspects)
                break
        else:
            return Blame(items=(item,), outcome="unresolved")
    while (yield frozenset(needed)) != "failed":
        low, high = 0, len(among)  # with the first `high` it fails, with the first `low` it does not
        while high - low > 1:
            named = sum(one in suspects for one in among)
            middle = named if low < named < high else (low + high) // 2
            if (yield frozenset([*needed, *among[:middle]])) == "failed":
                high = middle
            else:
                low = middle
        needed.append(among[high - 1])
        among = among[: high - 1]
    return Blame(items=tuple(needed), outcome="failed")


def launches_needed(count: int, suspects: Collection[int] = (), *, culprits: Iterable[int]) -> int:
    """Launches that a search takes if each of some items prevents every start.

    Args:
        count: Number of items.
        suspects: Those that the failure's log names.
        culprits: The guilty ones.
    """
    guilty = frozenset(culprits)
    asking = CulpritSearch(count, suspects=suspects)
    launches = 0
    while (subset := asking.next) is not None:
        asking.add("failed" if subset & guilty else "passed")
        launches += 1
    return launches


def expected_launches(count: int, suspects: Collection[int] = ()) -> tuple[float, int]:
    """Launches that a search takes: the mean if one item is the culprit, the most if two are.

    A suspect is taken to be the culprit if there is one.
    """
    singles = [launches_needed(count, suspects, culprits=(one,)) for one in suspects or range(count)]
    doubles = [launches_needed(count, suspects, culprits=pair) for pair in combinations(range(count), 2)]
    return sum(singles) / len(singles), max([*singles, *doubles])
