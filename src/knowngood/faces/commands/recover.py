"""``knowngood recover``."""

from pathlib import Path

import click

from knowngood.app.without_lab import left_on_host, recover_host
from knowngood.errors import StoreError
from knowngood.faces.show import json_option, lab_option, open_lab, present
from knowngood.faces.views import RecoverView

NOT_KNOWN_GOOD = 3


@click.command(name="recover")
@lab_option
@json_option
@click.option("--dry-run", is_flag=True, help="Say what is left over, and change nothing.")
def command(*, folder: Path | None, as_json: bool, dry_run: bool) -> int:
    """Bring the host back to known-good after work was cut off.

    Where the lab's memory cannot be read, the host is brought back by its own journal.
    """
    try:
        lab = open_lab(folder)
        if dry_run:
            present(RecoverView(did=tuple(f"left over: {line}" for line in lab.status().left_over)), as_json=as_json)
            return 0
        did = lab.recover()
        now = lab.status()
    except StoreError as error:
        did = tuple(f"left over: {line}" for line in left_on_host(folder)) if dry_run else recover_host(folder)
        present(RecoverView(did=did, known_good=False, memory=error.message), as_json=as_json)
        return NOT_KNOWN_GOOD
    present(RecoverView(did=did, known_good=now.known_good, drift=now.drift), as_json=as_json)
    return 0 if now.known_good else NOT_KNOWN_GOOD
