"""What of a change set can be left out: members, files and hunks of a patch, and what must not be parted."""

import re
from collections.abc import Callable, Collection, Sequence
from typing import Literal, assert_never

import msgspec

from knowngood.model.change import Change, ChangeSet, Edit, Env, File, Flag, Patch, Pin, Setting, describe
from knowngood.model.diagnosis import Diagnosis
from knowngood.reason.blame import GUILTY, blame
from knowngood.reason.edits import HUNK, FilePatch, Hunk, join, parse_diff

Grain = Literal["member", "file", "hunk"]
"""How finely a patch is taken apart; other members have no parts."""


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest part of a change set: a member, or one hunk of a patch.

    Attributes:
        member: Its index in the set.
        hunk: Number of the hunk in the patch, from 0; 0 for other members.
        path: File that it changes; empty if it changes none.
        name: In one line, for people.
        whole: Whether all of its file belongs together: a file that is made or deleted has no parts.
    """

    member: int
    hunk: int = 0
    path: str = ""
    name: str
    whole: bool = False


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """Pieces that are launched, or left out, together; in the order of the set."""

    pieces: tuple[Piece, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The pieces, each in one line."""
        return tuple(piece.name for piece in self.pieces)


def pieces_of(changes: ChangeSet) -> tuple[Piece, ...]:
    """Take a change set apart as far as it goes.

    Raises:
        Refused: A diff is malformed.
    """
    found: list[Piece] = []
    for number, member in enumerate(changes.members):
        if isinstance(member, Patch):
            found += hunks_of(member, number)
        else:
            path = member.path if isinstance(member, Edit | File) else ""
            found.append(Piece(member=number, path=path, name=describe(member)))
    return tuple(found)


def hunks_of(patch: Patch, member: int) -> list[Piece]:
    """The hunks of a patch."""
    parts = parse_diff(patch.diff, name=patch.name)
    every = [(part, hunk) for part in parts for hunk in part.hunks]
    return [
        Piece(
            member=member,
            hunk=number,
            path=join(patch.root, part.path),
            name=describe(patch) if len(every) == 1 else f"{describe(patch)}: {part.path} line {hunk.at}",
            whole=part.creates or part.deletes,
        )
        for number, (part, hunk) in enumerate(every)
    ]


def take_apart(changes: ChangeSet, grain: Grain, *, applies: Callable[[ChangeSet], bool]) -> tuple[Item, ...]:
    """Find what can be left out of a change set.

    Members of a declared group stay together, and so do changes of one file that do not apply without each other.

    Args:
        changes: The whole set; it applies.
        grain: How finely patches are taken apart.
        applies: Whether the files of a part of the set can be changed without the rest.

    Returns:
        The items, in the order of their first pieces.

    Raises:
        Refused: A diff is malformed.
    """
    pieces = pieces_of(changes)
    bonds = [[piece for piece in pieces if piece.member in group] for group in changes.groups]
    bonds += [
        [one for one in pieces if same_part(one, piece, grain)] for piece in pieces if grain != "hunk" or piece.whole
    ]
    items = unite([[piece] for piece in pieces], bonds)
    while lame := [item for item in items if touches(item) and not applies(subset(changes, [item]))]:
        united = unite(items, [[piece for piece in pieces if piece.path in touches(item)] for item in lame])
        if len(united) == len(items):
            break  # it needs another file's change: a launch without that is refused, and costs nothing
        items = united
    return tuple(Item(pieces=tuple(item)) for item in items)


def same_part(one: Piece, other: Piece, grain: Grain) -> bool:
    """Whether two pieces of patches belong to one part of this grain."""
    return one.member == other.member and (grain == "member" or one.path == other.path)


def touches(pieces: Sequence[Piece]) -> set[str]:
    """Files that pieces change."""
    return {piece.path for piece in pieces if piece.path}


def unite(items: Sequence[Sequence[Piece]], bonds: Sequence[Sequence[Piece]]) -> list[list[Piece]]:
    """Join all items that share a bond; pieces and items keep their order."""
    now = [list(item) for item in items]
    for bond in bonds:
        bound = [item for item in now if any(piece in bond for piece in item)]
        if len(bound) > 1:
            joined = [piece for item in bound for piece in item]
            bound[0][:] = sorted(joined, key=lambda piece: (piece.member, piece.hunk))
            now = [item for item in now if item is bound[0] or not any(item is one for one in bound)]
    return now


def subset(changes: ChangeSet, items: Collection[Sequence[Piece]]) -> ChangeSet:
    """The change set that holds some items only; the whole set if they are all.

    Args:
        changes: The whole set.
        items: Pieces of each item to keep.
    """
    hunks: dict[int, set[int]] = {}
    for piece in (piece for item in items for piece in item):
        hunks.setdefault(piece.member, set()).add(piece.hunk)
    kept = sorted(hunks)
    members = (
        keep_hunks(member, hunks[number]) if isinstance(member, Patch) else member
        for number, member in enumerate(changes.members)
        if number in hunks
    )
    groups = (tuple(kept.index(member) for member in group if member in hunks) for group in changes.groups)
    return ChangeSet(members=tuple(members), groups=tuple(group for group in groups if len(group) > 1))


def keep_hunks(patch: Patch, numbers: Collection[int]) -> Patch:
    """A patch with some of its hunks, by number from 0; each stands at the same old lines as before."""
    lines: list[bytes] = []
    number = 0
    parts = parse_diff(patch.diff, name=patch.name)
    for part in parts:
        body, number = kept_lines(part, numbers, number)
        lines += [*part.lines, *body] if body else []
    if len(numbers) == number:
        return patch
    which = ", ".join(str(number + 1) for number in sorted(numbers))
    return Patch(name=f"{patch.name} (hunk {which})", root=patch.root, diff=b"".join(lines))


def kept_lines(part: FilePatch, numbers: Collection[int], first: int) -> tuple[list[bytes], int]:
    """Lines of the hunks that are kept, those of a file's first hunk bearing ``first``; and the next number."""
    lines: list[bytes] = []
    gone = 0
    for number, hunk in enumerate(part.hunks, first):
        if number in numbers:
            lines += [shift(hunk.lines[0], -gone), *hunk.lines[1:]]
        else:
            gone += growth(hunk)
    return lines, first + len(part.hunks)


def growth(hunk: Hunk) -> int:
    """Lines that a hunk adds to its file; below zero if it takes some away."""
    return len(hunk.new) - len(hunk.old)


def shift(head: bytes, lines: int) -> bytes:
    """A hunk's head with its new lines standing elsewhere."""
    found = HUNK.match(head)
    if found is None or not lines:
        return head
    start, end = found.span(3)
    return head[:start] + b"%d" % (int(found[3]) + lines) + head[end:]


def by_risk(items: Sequence[Item], changes: ChangeSet) -> tuple[Item, ...]:
    """Order items, the riskiest last."""
    return tuple(sorted(items, key=lambda item: max(risk(changes.members[piece.member]) for piece in item.pieces)))


def suspects(items: Sequence[Item], changes: ChangeSet, diagnosis: Diagnosis | None) -> frozenset[int]:
    """Numbers of the items that the log of the whole set's failure names; none without a diagnosis."""
    if diagnosis is None:
        return frozenset()
    guilty = {one.member for one in blame(diagnosis, changes.members).suspects if one.sure > GUILTY}
    named = {number for number, member in enumerate(changes.members) if describe(member) in guilty}
    return frozenset(at for at, item in enumerate(items) if any(piece.member in named for piece in item.pieces))


def risk(change: Change) -> int:
    """How likely a kind of change is to keep a server from starting: code more than packages, packages than values."""
    match change:
        case Env() | Setting():
            return 0
        case Flag():
            return 1
        case Pin():
            return 2
        case File():
            return 3
        case Edit() | Patch():
            return 4
        case _:
            assert_never(change)


def signature(message: str, diagnosis: Diagnosis | None) -> str:
    """What makes two failures the same one: the cause if it is known, else the error's words without their numbers.

    Args:
        message: What the error said.
        diagnosis: What the log said.
    """
    if diagnosis is not None and not diagnosis.abstained:
        return f"{diagnosis.cause}: {diagnosis.component}"
    words = diagnosis.line if diagnosis is not None and diagnosis.line else message
    return re.sub(r"\s+", " ", re.sub(r"0x[0-9a-fA-F]+|\d+(?:\.\d+)*|'[^']*'|\"[^\"]*\"", "#", words)).strip()
