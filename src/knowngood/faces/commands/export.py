"""``knowngood export``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import FilesView


@click.command(name="export")
@lab_option
@json_option
@click.option(
    "--format", "form", type=click.Choice(["script", "systemd", "compose"]), default="script", show_default=True
)
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("known-good"), show_default=True)
@click.option("--dry-run", is_flag=True, help="Name the files, and write nothing.")
def command(*, folder: Path | None, as_json: bool, form: str, out: Path, dry_run: bool) -> int:
    """Leave with the result: how to start the known-good server, and a patch for the files it edits."""
    files = open_lab(folder).export(form)
    if not dry_run:
        out.mkdir(parents=True, exist_ok=True)
        for name, (content, mode) in files.items():
            (out / name).write_bytes(content)
            (out / name).chmod(mode)
    present(FilesView(files=tuple(str(out / name) for name in files)), as_json=as_json)
    return 0
