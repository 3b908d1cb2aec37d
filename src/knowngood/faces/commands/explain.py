"""``knowngood explain``."""

from pathlib import Path

import click

from knowngood.app import explain_step
from knowngood.errors import UsageError
from knowngood.faces.explanation import ExplainView, explanation_text, write_ladder
from knowngood.faces.show import json_option, lab_option, open_lab, present


@click.command(name="explain")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@lab_option
@json_option
@click.option(
    "--set", "settings", multiple=True, metavar="TABLE.KEY=VALUE", help="A number, as in a facts file; repeatable."
)
@click.option(
    "--what-if", "what_if", multiple=True, metavar="KEY=VALUE", help="Suppose a number, such as allreduce_us=50."
)
@click.option("--from-trial", "trial", default="", metavar="ID", help="Take rates and logs from a trial of the lab.")
@click.option(
    "--write", "write", default=None, type=click.Path(file_okay=False, path_type=Path), help="Write the ladder here."
)
def command(
    *,
    files: tuple[Path, ...],
    folder: Path | None,
    as_json: bool,
    settings: tuple[str, ...],
    what_if: tuple[str, ...],
    trial: str,
    write: Path | None,
) -> int:
    """Say where a step's milliseconds go, whether speculation pays, what cannot be true, and what to try next.

    FILES are facts (one .toml) and whatever else there is: traces, Nsight exports, logs of NCCL or a server, output of
    nccl-tests, `nvidia-smi topo -m`. Nothing is started, and no lab is needed.
    """
    tables = [path for path in files if path.suffix == ".toml"]
    if len(tables) > 1:
        raise UsageError("two facts files were named", hint="--set TABLE.KEY=VALUE changes single numbers of one")
    if not (files or settings or trial):
        hint = "knowngood explain facts.toml, or a trace, or --set baseline.tok_s=82"
        raise UsageError("there is nothing to explain", hint=hint)
    facts, explanation = explain_step(
        tables[0] if tables else None,
        [path for path in files if path not in tables],
        settings=settings,
        what_if=what_if,
        lab=open_lab(folder) if trial or folder else None,
        trial=trial,
    )
    written = write_ladder(explanation, write) if write else ()
    view = ExplainView(facts=facts, explanation=explanation, files=written)
    present(view, as_json=as_json, text=explanation_text)
    return 0
