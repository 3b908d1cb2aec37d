"""Which processes belong to a launch: however they forked, left their group, lost their parent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Tuple  # noqa: UP035 - evaluated, and Python 3.8 must understand it

from .proc import Stat, process_table, read_proc

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MARKER = "KNOWNGOOD_LAUNCH"
Name = Tuple[int, int]  # noqa: UP006 - the same


class Family:
    """The processes of one launch.

    A process belongs to it if it carries the launch's marker in its environment, is the leader, is in the leader's
    session, descends from one that belongs, or did when it was last seen. A process that clears its environment, starts
    a session and loses its parent, all between two looks, escapes; nothing short of a control group would hold it.

    Args:
        token: Value of the marker, unlike that of any other launch.
        leader: Process id and start time of the first process; None if it was not recorded.
    """

    def __init__(self, token: str, leader: Name | None) -> None:
        self._mark = f"{MARKER}={token}".encode()
        self._leader = leader
        self._seen: set[Name] = {leader} if leader else set()

    def living(self) -> list[Stat]:
        """Members that live now."""
        return [member for member in self.members(process_table()) if member.lives]

    def members(self, table: Mapping[int, Stat]) -> list[Stat]:
        """Members out of a table of all processes, zombies included."""
        strangers = ancestors(table, os.getpid())
        ours = {one.pid for one in table.values() if (one.pid, one.start) in self._seen or self._is_marked(one.pid)}
        # While a member of it is there, the session's number cannot have been given to somebody else.
        if self._leader and any(table[pid].session == self._leader[0] for pid in ours):
            ours |= {one.pid for one in table.values() if one.session == self._leader[0]}
        ours = with_descendants(table, ours - strangers) - strangers
        found = [table[pid] for pid in sorted(ours)]
        self._seen.update((one.pid, one.start) for one in found)
        return found

    def _is_marked(self, pid: int) -> bool:
        return self._mark in read_proc(pid, "environ").split(b"\0")


def ancestors(table: Mapping[int, Stat], pid: int) -> set[int]:
    """A process and all above it: whatever their environment says, these are never to be ended."""
    found: set[int] = set()
    while pid in table and pid not in found:
        found.add(pid)
        pid = table[pid].parent
    return found


def with_descendants(table: Mapping[int, Stat], pids: Iterable[int]) -> set[int]:
    """These processes and all below them."""
    children: dict[int, list[int]] = {}
    for one in table.values():
        children.setdefault(one.parent, []).append(one.pid)
    found: set[int] = set()
    todo = list(pids)
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(children.get(pid, ()))
    return found
