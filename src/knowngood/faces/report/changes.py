"""What a change set changes, to the letter."""

from typing import assert_never

from knowngood.faces.report.chips import code, folded
from knowngood.faces.report.markup import Markup, Node, element
from knowngood.faces.report.words import clip, count
from knowngood.model.change import Change, ChangeSet, Edit, Env, File, Flag, Patch, Pin, Setting, describe

SHORT = 12
MOST_LINES = 60
LONGEST = 400


def members(changes: ChangeSet) -> Node:
    """The members, one line each; file changes with their text."""
    if not changes.members:
        return element("p", "No member: a null change, to test the method.", class_="muted")
    return element("ul", *(element("li", member(one)) for one in changes.members), class_="members")


def member(change: Change) -> Node:
    """One member."""
    head = code(describe(change))
    match change:
        case Edit():
            times = f", {change.count} times" if change.count > 1 else ""
            lines = [f"-{line}" for line in change.find.splitlines()] + [
                f"+{line}" for line in change.replace.splitlines()
            ]
            return [head, shown(f"the edit{times}", lines)]
        case Patch():
            return [head, shown("the patch", change.diff.decode(errors="replace").splitlines())]
        case File():
            source = f" from {change.source}" if change.source else ""
            return [head, element("span", f"{source}, {len(change.content):,} bytes", class_="muted")]
        case Pin():
            how = "with what it requires" if change.deps else "without what it requires"
            return [head, element("span", f", {how}", class_="muted")]
        case Setting() if change.write:
            return [head, element("span", f", set by {' '.join(change.write)}", class_="muted")]
        case Env() | Flag() | Setting():
            return head
        case _:
            assert_never(change)


def shown(what: str, lines: list[str]) -> Markup:
    """A short change at once, a long one on demand."""
    return diff(lines) if len(lines) <= SHORT else folded(f"{what}, {count(len(lines), 'line')}", diff(lines))


def diff(lines: list[str]) -> Markup:
    """Lines of a unified diff; the first ones, if there are many."""
    kinds = {"+": "ins", "-": "del"}
    marked = [element(kinds.get(line[:1], "span"), clip(line, LONGEST) + "\n") for line in lines[:MOST_LINES]]
    rest = f"… {count(len(lines) - MOST_LINES, 'more line')}" if len(lines) > MOST_LINES else None
    return element("pre", *marked, rest, class_="diff")
