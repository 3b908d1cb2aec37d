"""Small pieces that several chapters use: verdict chips, tables, definition lists."""

from collections.abc import Sequence

from knowngood.faces.report.markup import Markup, Node, element

SIGNS = {
    "keep": "✓",
    "kept": "✓",
    "helps": "✓",
    "pass": "✓",
    "yes": "✓",
    "revert": "↩",
    "reverted": "↩",
    "hurts": "↓",
    "fail": "✗",
    "suspect": "!",
    "no": "✗",
    "inconclusive": "≈",
    "undecided": "≈",
    "no effect": "≈",
    "unknown": "?",
    "void": "∅",
    "dead": "✗",
    "dead end": "✗",
    "undone": "↶",
    "running": "…",
    "open": "○",
    "waiting": "…",
    "winner": "★",
    "level": "=",
    "behind": "↓",
    "worse": "↓",
    "failed": "✗",
}
"""A sign beside each word: colour alone never says anything."""
TONES = {
    "keep": {"keep", "kept", "helps", "pass", "yes", "winner"},
    "revert": {"revert", "reverted", "hurts", "behind", "worse"},
    "bad": {"fail", "failed", "suspect", "no", "dead", "dead end"},
    "open": {"inconclusive", "undecided", "no effect", "running", "open", "waiting", "unknown", "level"},
    "void": {"void"},
    "undone": {"undone"},
}


def chip(word: str) -> Markup:
    """A word of judgement with its sign."""
    tone = next((name for name, members in TONES.items() if word in members), "open")
    sign = element("span", SIGNS.get(word, "·"), class_="sign", aria_hidden="true")
    return element("span", sign, word, class_=f"chip {tone}")


def table(head: Sequence[str], rows: Sequence[Sequence[Node]], *, kind: str = "", caption: str = "") -> Markup:
    """A table; columns whose title starts with ``#`` hold numbers."""
    numeric = ["number" if title.startswith("#") else None for title in head]
    titles = [
        element("th", title.lstrip("#"), scope="col", class_=number)
        for title, number in zip(head, numeric, strict=True)
    ]
    body = [
        element("tr", *(element("td", cell, class_=number) for cell, number in zip(row, numeric, strict=True)))
        for row in rows
    ]
    heading = element("caption", caption) if caption else None
    inner = element(
        "table", heading, element("thead", element("tr", *titles)), element("tbody", *body), class_=kind or None
    )
    return element("div", inner, class_="scroll")


def facts(entries: Sequence[tuple[str, Node]], *, kind: str = "facts") -> Markup | None:
    """Names and what they are; None if there are none."""
    if not entries:
        return None
    return element(
        "dl", *(element("div", element("dt", name), element("dd", value)) for name, value in entries), class_=kind
    )


def code(text: str) -> Markup:
    """A word of a machine."""
    return element("code", text)


def log(text: str) -> Markup:
    """A piece of a log, wrapped where it is too long."""
    return element("pre", text, class_="log")


def captioned(drawing: Node, title: Node, note: Node = None) -> Markup:
    """A drawing with its title above and a note below."""
    caption = element("figcaption", element("strong", title), element("span", note) if note else None)
    return element("figure", caption, element("div", drawing, class_="drawing"))


def folded(title: str, *inside: Node) -> Markup:
    """Something that not everybody wants to see at once; printed in full."""
    return element("details", element("summary", title), *inside)
