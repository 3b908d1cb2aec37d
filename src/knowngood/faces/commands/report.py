"""``knowngood report``."""

from pathlib import Path

import click

from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import FilesView


@click.command(name="report")
@lab_option
@json_option
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("report.html"), show_default=True)
def command(*, folder: Path | None, as_json: bool, out: Path) -> int:
    """Write everything the lab knows into one self-contained HTML file."""
    from knowngood.faces.report import write_report  # noqa: PLC0415

    write_report(open_lab(folder), out)
    present(FilesView(files=(str(out),)), as_json=as_json)
    return 0
