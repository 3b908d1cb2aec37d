"""``knowngood init``."""

from pathlib import Path

import click

from knowngood.app.without_lab import describe_server
from knowngood.errors import UsageError
from knowngood.faces.show import json_option, present
from knowngood.faces.views import FilesView


@click.command(name="init", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND…]")
@click.option(
    "--pid", type=int, default=None, help="Take command and environment of a server that runs; it is left alone."
)
@click.option("--engine", default="", help="llamacpp, openai or command; default: guessed from the command.")
@click.option("--dir", "folder", type=click.Path(file_okay=False, path_type=Path), default=Path(), help="Where to.")
@click.option("--force", is_flag=True, help="Write over a lab file that stands there.")
@click.option("--dry-run", is_flag=True, help="Print the file, and write nothing.")
@json_option
def command(
    *, words: tuple[str, ...], pid: int | None, engine: str, folder: Path, force: bool, dry_run: bool, as_json: bool
) -> int:
    """Write knowngood.toml from a launch COMMAND, or from a server that runs already."""
    text, notes = describe_server(words, pid=pid, engine=engine)
    path = folder / "knowngood.toml"
    if dry_run:
        present(FilesView(files=(str(path),), message=text), as_json=as_json)
        return 0
    if path.exists() and not force:
        raise UsageError(f"{path} stands there already", hint="--force writes over it")
    (folder / "experiments").mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    present(FilesView(files=(str(path),), message="\n".join((*notes, "next: knowngood baseline"))), as_json=as_json)
    return 0
