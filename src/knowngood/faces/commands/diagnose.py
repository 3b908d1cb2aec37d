"""``knowngood diagnose``."""

from pathlib import Path

import click

from knowngood.app.without_lab import diagnose_log
from knowngood.faces.show import json_option, present
from knowngood.faces.views import diagnosis_view


@click.command(name="diagnose")
@click.argument("log", type=click.Path(path_type=Path))
@click.option("--engine", default="", help="Whose log it is; default: all rules are tried.")
@json_option
def command(*, log: Path, engine: str, as_json: bool) -> int:
    """Read the root cause out of a server's LOG (- is standard input, .gz is unpacked). Needs no lab.

    In a lab its own rule files (rules/*.toml) are used, too.
    """
    present(diagnosis_view(diagnose_log(log, engine=engine, near=Path.cwd())), as_json=as_json)
    return 0
