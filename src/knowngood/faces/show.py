"""What all commands share: the lab and JSON options, and how a view leaves the program."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from knowngood.app import Lab
from knowngood.faces.views import View

F = TypeVar("F", bound=Callable[..., Any])
V = TypeVar("V", bound=View)


def json_option(command: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of text.")(command)


def lab_option(command: F) -> F:
    """Add ``--lab``."""
    return click.option(
        "--lab",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        default=None,
        help="Directory of the lab; default: this one or the nearest above with a knowngood.toml.",
    )(command)


def present(view: V, *, as_json: bool, text: Callable[[V], str] | None = None) -> None:
    """Print a view to stdout: text for people, exactly one JSON object for programs.

    Args:
        view: What to show.
        as_json: Whether a program reads it.
        text: How people read it; by default as ``text.render`` has it, which knows all small views.
    """
    if as_json:
        import msgspec  # noqa: PLC0415

        sys.stdout.write(msgspec.json.encode(view).decode() + "\n")
    else:
        from knowngood.faces.text import render  # noqa: PLC0415

        click.echo(text(view) if text else render(view))


def open_lab(folder: Path | None, *, progress: bool = False) -> Lab:
    """Open the lab a command is meant for.

    Args:
        folder: Its directory; None looks from here upwards.
        progress: Whether the command takes long enough to show progress, on stderr.
    """
    if not progress:
        return Lab(folder) if folder else Lab.find()
    from knowngood.faces.progress import Progress  # noqa: PLC0415

    show = Progress()
    return Lab(folder, show=show) if folder else Lab.find(show=show)
