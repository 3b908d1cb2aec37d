"""The accuracy guard within a trial: the lab's command is run once against each arm, its output kept."""

import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import msgspec

from knowngood.config.lab import AccuracyTable
from knowngood.config.values import read_file, seconds
from knowngood.errors import CheckFailed, UsageError
from knowngood.flow.bench import Bench
from knowngood.flow.server import Server, served_model
from knowngood.model.evidence import AccuracyCheck, Arm
from knowngood.reason.accuracy import compare_items, read_items

SAID = 300


class AccuracyDesk:
    """Collects what the command says of both arms of one trial.

    Args:
        bench: The lab's tools.

    Attributes:
        result: The comparison, once both arms were asked.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.result: AccuracyCheck | None = None
        self.said: dict[Arm, bytes] = {}

    @property
    def is_open(self) -> bool:
        """Whether there is a command, and it was not run against both arms yet."""
        return self.bench.config.accuracy is not None and self.result is None

    def visit(self, server: Server, arm: Arm) -> None:
        """Put the items to a server, if its arm was not asked yet.

        Raises:
            CheckFailed: The command failed, or what it said cannot be used.
        """
        table = self.bench.config.accuracy
        if table is None or self.result is not None or arm in self.said:
            return
        self.bench.show.advance(f"accuracy of the {arm}", 0.0)
        self.said[arm] = self.ask(table, server, arm)
        read_items(text_of(self.said[arm]))
        if len(self.said) < len(("baseline", "candidate")):
            return
        base, mine = self.said["baseline"], self.said["candidate"]
        self.result = msgspec.structs.replace(
            compare_items(read_items(text_of(base)), read_items(text_of(mine))),
            base_output=self.bench.artifacts.put(base),
            output=self.bench.artifacts.put(mine),
        )

    def ask(self, table: AccuracyTable, server: Server, arm: Arm) -> bytes:
        """Run the command against a server; return what it printed, or the file that it wrote.

        Raises:
            CheckFailed: It cannot be started, did not end in time, failed, or left no file.
        """
        results = self.bench.config.root / table.results if table.results else None
        if results is not None:
            results.unlink(missing_ok=True)
        url, model = server.route.url, served_model(server.route.url)
        words = [word.replace("{url}", url).replace("{model}", model) for word in table.command]
        names = {"KNOWNGOOD_URL": url, "KNOWNGOOD_MODEL": model}
        longest_s = seconds(table.timeout, where="[accuracy] timeout")
        printed = self.bench.scratch / f"accuracy-{arm}.txt"
        status = run_command(words, names, cwd=self.bench.config.root, out=printed, longest_s=longest_s)
        if status:
            said = printed.with_suffix(".err").read_text(errors="replace").strip()[-SAID:]
            raise CheckFailed(
                f"the accuracy command failed against the {arm} (exit status {status}): {said or 'it said nothing'}",
                hint=f"run it by hand against a server: {' '.join(table.command)}",
            )
        try:
            return read_file(results or printed, hint="[accuracy] results names it")
        except UsageError as error:
            raise CheckFailed(
                f"the accuracy command left no {table.results or 'output'}: {error.message}", hint=error.hint
            ) from error


def text_of(said: bytes) -> str:
    """Bytes as text, whatever they are."""
    return said.decode(errors="replace")


def run_command(words: list[str], names: dict[str, str], *, cwd: Path, out: Path, longest_s: float) -> int:
    """Run a program of the lab's own; nothing of it is left when this returns.

    Args:
        words: Program and arguments.
        names: Variables added to the environment.
        cwd: Its working directory.
        out: Takes its output; the file beside it with the ending ``.err`` takes its messages.
        longest_s: Longest run, in seconds.

    Returns:
        Its exit status; negative for a signal.

    Raises:
        CheckFailed: It cannot be started, or did not end in time.
    """
    with out.open("wb") as stdout, out.with_suffix(".err").open("wb") as stderr:
        try:
            process = subprocess.Popen(
                words,
                cwd=cwd,
                env={**os.environ, **names},
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
            )
        except OSError as error:
            raise CheckFailed(
                f"the accuracy command {words[0]} cannot be started: {error.strerror}", hint="[accuracy] command"
            ) from error
        try:
            return process.wait(longest_s)
        except subprocess.TimeoutExpired as error:
            raise CheckFailed(
                f"the accuracy command did not end within {longest_s:g} s", hint="raise [accuracy] timeout"
            ) from error
        finally:
            # Its group, because what it has started may outlive it.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
