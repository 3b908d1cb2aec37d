"""What lines of text are made of: columns, and effects as a person would write them."""

from collections.abc import Sequence

import click


def percent(value: float | None) -> str:
    """A ratio minus one as a signed percentage; a dash for None."""
    if value is None:
        return "–"
    if value >= 1:
        return f"×{1 + value:.2f}"
    return f"{value:+.1%}"


def columns(rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Rows as aligned columns; the last column is ragged."""
    if not rows:
        return ""
    plain = [[click.unstyle(cell) for cell in row] for row in rows]
    widths = [max(len(row[at]) for row in plain) for at in range(len(rows[0]))]
    lines: list[str] = []
    for row, bare in zip(rows, plain, strict=True):
        cells = [cell + " " * (width - len(naked)) for cell, naked, width in zip(row, bare, widths, strict=True)]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)
