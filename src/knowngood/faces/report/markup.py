"""HTML and SVG out of nested calls. Text is escaped on its way in, so that a log line can never become markup."""

import html
import re
from collections.abc import Sequence

UNPRINTABLE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
"""Terminal colours, control characters, lone surrogates: none of them may stand in a document."""
BARE = frozenset({"circle", "line", "path", "polygon", "rect"})
"""SVG elements that are written as one tag."""


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


Node = str | Sequence["Node"] | None


def render(node: Node) -> Markup:
    """Markup of a node: text escaped, markup as it is, sequences joined, None as nothing."""
    if node is None:
        return Markup()
    if isinstance(node, Markup):
        return node
    if isinstance(node, str):
        return Markup(html.escape(UNPRINTABLE.sub("", node)))
    return Markup("".join(map(render, node)))


def element(name: str, /, *children: Node, **attributes: str | float | None) -> Markup:
    """One element.

    Args:
        name: Of the element.
        children: What it holds.
        attributes: ``class_`` is written ``class``, ``stroke_width`` is written ``stroke-width``; None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{render(value if isinstance(value, str) else short(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in BARE and not children:
        return Markup(f"<{name}{written}/>")
    return Markup(f"<{name}{written}>{render(children)}</{name}>")


def short(value: float) -> str:
    """A coordinate with at most one decimal: nobody sees more, and files stay small."""
    text = f"{value:.1f}"
    return text.removesuffix(".0") if text != "-0.0" else "0"
