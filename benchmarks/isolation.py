"""What isolation takes and how often it is right, on random change sets.

Run: ``python benchmarks/isolation.py`` (a minute on one core). The tables are in docs/how-to/isolate.md.
"""

import argparse
from collections.abc import Callable

import numpy as np

from knowngood.model.isolation import Subset
from knowngood.reason.isolate import CulpritSearch
from knowngood.reason.screen import Screen

LAUNCH_SD = 0.0225
COUNTS = (4, 8, 16)
EFFECT_COUNTS = (8, 16)

Items = list[int]
FAILURES: dict[str, tuple[Callable[[Items, Subset], bool], int]] = {
    "one culprit": (lambda i, s: i[0] in s, 1),
    "two culprits": (lambda i, s: bool(s & {i[0], i[1]}), 2),
    "two that fail only together": (lambda i, s: s >= {i[0], i[1]}, 1),
    "one culprit, one that needs another": (lambda i, s: i[0] in s or (i[1] in s and i[2] not in s), 1),
    "one culprit, two that only work together": (lambda i, s: i[0] in s or len(s & {i[1], i[2]}) == 1, 1),
}
"""Name to whether a subset fails (items in random order), and how many members must be left out."""


def isolate(fails: Callable[[Items, Subset], bool], items: Items) -> tuple[int, int]:
    """Launches, and members that survive."""
    search, launches = CulpritSearch(len(items)), 0
    while (subset := search.next) is not None:
        search.add("failed" if fails(items, subset) else "passed")
        launches += 1
    return launches, len(search.found.survivors) if search.found else 0


def failures(cases: int) -> None:
    """Print the table of failures."""
    for name, (fails, left_out) in FAILURES.items():
        cells: list[str] = []
        for count in COUNTS:
            rng, taken, right = np.random.default_rng(1), list[int](), 0
            for _ in range(cases):
                items = [int(item) for item in rng.permutation(count)]
                launches, survive = isolate(fails, items)
                taken.append(launches)
                right += survive == count - left_out
            cells.append(f"{np.mean(taken):.1f}" + ("" if right == cases else f" ({right / cases:.0%} right)"))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


EFFECTS: dict[str, tuple[Callable[[Items, Subset], float | None], int]] = {
    "one hurts by 8 %": (lambda i, s: -0.08 * (i[0] in s), 0),
    "one hurts by 6 %, two help by 5 %": (lambda i, s: -0.06 * (i[0] in s) + 0.05 * len(s & {i[1], i[2]}), 2),
    "one hurts by 6 %, two help by 8 % only together": (
        lambda i, s: -0.06 * (i[0] in s) + 0.08 * (s >= {i[1], i[2]}),
        2,
    ),
    "the same, and one of the two hurts alone by 4 %": (
        lambda i, s: -0.06 * (i[0] in s) - 0.04 * (i[1] in s) + 0.12 * (s >= {i[1], i[2]}),
        2,
    ),
    "the same, and one of the two does not run alone": (
        lambda i, s: None if i[1] in s and i[2] not in s else -0.06 * (i[0] in s) + 0.08 * (i[1] in s),
        2,
    ),
}
"""Name to ln effect of a subset (None: it does not run), and how many members, behind the first, must survive."""


def effects(cases: int) -> None:
    """Print the table of effects."""
    for name, (effect, helpful) in EFFECTS.items():
        cells: list[str] = []
        for count in EFFECT_COUNTS:
            rng, right = np.random.default_rng(2), 0
            for case in range(cases):
                items = [int(item) for item in rng.permutation(count)]
                screen = Screen(count, scale=LAUNCH_SD, seed=case)
                while (subset := screen.next) is not None:
                    true = effect(items, subset)
                    screen.add(None if true is None else true + LAUNCH_SD * float(rng.standard_normal()))
                survive = set(screen.found.survivors) if screen.found else set[int]()
                right += items[0] not in survive and survive >= set(items[1 : 1 + helpful])
            cells.append(f"{right / cases:.1%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=1000)
    cases = parser.parse_args().cases
    failures(cases)
    effects(cases)


if __name__ == "__main__":
    main()
