"""``recover.py``: what a person runs by hand on the host when nothing else is left, and what the engine runs there.

Usage: ``python3 recover.py [--state DIR] [recover | list | revert ID | keep ID]``; without a word it recovers. The
engine says ``serve`` (answer requests on standard input) and ``watch TOKEN`` (hold the lease that it locks).
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from .journal import UNFINISHED, Journal, Status
from .plan import JournalError
from .serve import serve
from .settings import SettingsBook
from .watch import watch

if TYPE_CHECKING:
    from collections.abc import Sequence

USAGE = "usage: recover.py [--state DIR] [recover | list | revert ID | keep ID]\n"
FAILED_STATUS = 1
USAGE_STATUS = 2


def main(arguments: Sequence[str], home: str) -> int:
    """Run a command on the journal.

    Args:
        arguments: Command line, without the program.
        home: State directory, unless the command line names another one.

    Returns:
        Exit status: 0 all is well, 1 something is unfinished or was refused, 2 usage.
    """
    words = list(arguments)
    if words[:1] == ["--state"] and len(words) > 1:
        home = words[1]
        words = words[2:]
    # A closed terminal or pipe must not stop an undo half-way.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if words == ["serve"]:
        # The boot line leaves this program's own text there.
        return serve(sys.stdin.buffer, getattr(sys.modules["__main__"], "s", b""))
    if len(words) == len(("watch", "TOKEN")) and words[0] == "watch":
        return watch(home, int(words[1]))
    try:
        answers = run(Journal(home), SettingsBook(home), words)
    except (JournalError, OSError) as error:
        sys.stderr.write(f"recover.py: {error}\n")
        return FAILED_STATUS
    if answers is None:
        sys.stderr.write(USAGE)
        return USAGE_STATUS
    for answer in answers:
        sys.stdout.write(f"{answer.id} {answer.state}\n")
        for note in answer.notes:
            sys.stdout.write(f"  {note}\n")
    return FAILED_STATUS if any(answer.state == UNFINISHED for answer in answers) else 0


def run(journal: Journal, settings: SettingsBook, words: list[str]) -> list[Status] | None:
    """Carry out a command on edits and settings; None if it is none."""
    if words in ([], ["recover"]):
        return [*settings.recover(), *journal.recover()]
    if words == ["list"]:
        return [*journal.transactions(), *settings.transactions()]
    if len(words) == len(("revert", "ID")) and words[0] in ("revert", "keep"):
        # A change set may have both under one id; settings go back first, they were set last.
        books = [book for book in (settings, journal) if words[1] in [one.id for one in book.transactions()]]
        return [getattr(book, words[0])(words[1]) for book in books or (journal,)]
    return None


def here() -> str:
    """Directory that the script lies in."""
    return os.path.dirname(os.path.abspath(sys.argv[0]))
