"""Rows of text as aligned columns."""

from collections.abc import Sequence

import click


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
