"""What is shown of an isolation, before and after."""

from collections.abc import Sequence

import msgspec

from knowngood.faces.views import TrialView, View, trial_view
from knowngood.model.change import describe
from knowngood.model.events import SubsetLaunched
from knowngood.model.isolation import Culprit, Kind, Outcome
from knowngood.reason.fold import LabState
from knowngood.reason.records import Isolation
from knowngood.reason.suspicion import confirmation, is_complete


class SubsetRow(msgspec.Struct, frozen=True, kw_only=True):
    """One launch: which items, what came out, the objective's value, what the failure said, whether it counted."""

    index: int
    items: tuple[int, ...]
    outcome: Outcome
    value: float | None
    why: str
    counted: bool


class IsolationView(View, frozen=True, kw_only=True, tag="knowngood/isolation/1"):
    """Which member of a change set did it.

    Attributes:
        id: Of the isolation.
        name: Of the hypothesis that was taken apart.
        kind: Whether a failure or an effect was looked for.
        items: What was launched or left out as a whole.
        done: Whether the culprits are known.
        culprits: What was left out.
        survivors: What is left.
        launches: All launches, in order.
        trial: Trial of the survivors; None without one.
        files: Files that the survivors were written to.
        next: Command to run next; empty if there is nothing to do.
    """

    id: str
    name: str
    kind: Kind
    items: tuple[tuple[str, ...], ...]
    done: bool
    culprits: tuple[Culprit, ...]
    survivors: tuple[str, ...]
    launches: tuple[SubsetRow, ...]
    trial: TrialView | None
    files: tuple[str, ...] = ()
    next: str = ""


class OutlineView(View, frozen=True, kw_only=True, tag="knowngood/isolation-dry-run/1"):
    """What an isolation would do and cost.

    Attributes:
        name: Of the hypothesis.
        kind: Whether a failure or an effect is looked for.
        items: What is launched or left out as a whole.
        expected_launches: If one item is the culprit.
        worst_launches: If two items are.
        expected_min: Minutes that they take.
        worst_min: The same, if two items are the culprits.
        trial_expected_min: Minutes of the survivors' trial, if they change nothing.
        trial_worst_min: Minutes of it at most.
    """

    name: str
    kind: Kind
    items: tuple[tuple[str, ...], ...]
    expected_launches: float
    worst_launches: int
    expected_min: float
    worst_min: float
    trial_expected_min: float
    trial_worst_min: float


def isolation_view(state: LabState, isolation: Isolation, *, files: Sequence[str] = ()) -> IsolationView:
    """Show one isolation."""
    result = isolation.result
    confirmed = confirmation(state, isolation) if result is not None and result.culprits else None
    return IsolationView(
        id=isolation.id,
        name=isolation.hypothesis.name,
        kind=isolation.kind,
        items=isolation.items,
        done=result is not None,
        culprits=result.culprits if result else (),
        survivors=tuple(describe(member) for member in result.rest.changes.members) if result else (),
        launches=tuple(subset_row(launch) for launch in isolation.launches),
        trial=trial_view(confirmed) if confirmed else None,
        files=tuple(files),
        next="" if is_complete(state, isolation) else f"knowngood isolate {isolation.id}",
    )


def subset_row(launch: SubsetLaunched) -> SubsetRow:
    """Show one launch."""
    return SubsetRow(
        index=launch.index,
        items=launch.subset,
        outcome=launch.outcome,
        value=launch.launch.value if launch.launch else None,
        why=launch.why,
        counted=launch.counts,
    )
