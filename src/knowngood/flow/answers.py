"""The answers guard within a trial: the candidate is asked in its first launch, the baseline in the one after.

Both are asked after they were measured, so that neither is measured with a warmer prompt cache, and only where a keep
is still possible: answers cost as much as a run.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from knowngood.config.values import read_file
from knowngood.errors import LoadError, UsageError
from knowngood.flow.bench import Bench
from knowngood.flow.server import Server
from knowngood.model.evidence import AnswerCheck, Arm
from knowngood.reason.answers import PROMPTS, Answer, Comparison, check


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """What the baseline says: its answers, and how it compares with itself when asked twice."""

    answers: tuple[Answer, ...]
    own: tuple[Comparison, ...]


class AnswerDesk:
    """Collects both arms' answers of one trial.

    Args:
        bench: The lab's tools.
        prompts: What is asked.
        version: Version of the baseline; its answers are asked for once and kept.
    """

    def __init__(self, bench: Bench, prompts: Sequence[str], *, version: int) -> None:
        self.bench = bench
        self.prompts = prompts
        self.kept = bench.scratch.parent / f"answers-v{version}.json"
        self.theirs: tuple[Answer, ...] | None = None
        self.result: AnswerCheck | None = None

    @property
    def is_open(self) -> bool:
        """Whether answers are wanted and not compared yet."""
        wanted = self.bench.config.compared_as is not None and self.bench.engine.readiness is not None
        return wanted and self.result is None

    def visit(self, server: Server, arm: Arm) -> None:
        """Ask a server that runs, if its answers are still missing.

        Raises:
            LoadError: It does not answer.
        """
        if not self.is_open:
            return
        tokens = self.bench.config.answers.tokens
        if arm == "candidate" and self.theirs is None:
            self.bench.show.advance("asking the candidate for its answers", 0.0)
            self.theirs = self.bench.examiner.ask(server.route.url, self.prompts, n_tokens=tokens)
        elif arm == "baseline" and self.theirs is not None:
            self.bench.show.advance("comparing answers", 0.0)
            mine = self.reference(server, tokens)
            pairs = zip(mine.answers, self.theirs, strict=True)
            compared = [self.bench.examiner.compare(server.route.url, a, b) for a, b in pairs]
            self.result = check(compared, mine.own)

    def reference(self, server: Server, tokens: int) -> Reference:
        """What the baseline says, asked twice the first time."""
        known = read_reference(self.kept, self.prompts, tokens)
        if known is not None:
            return known
        url = server.route.url
        first = self.bench.examiner.ask(url, self.prompts, n_tokens=tokens)
        second = self.bench.examiner.ask(url, self.prompts, n_tokens=tokens)
        own = tuple(self.bench.examiner.compare(url, a, b) for a, b in zip(first, second, strict=True))
        reference = Reference(answers=first, own=own)
        self.kept.write_bytes(msgspec.json.encode(reference))
        return reference


def read_reference(path: Path, prompts: Sequence[str], tokens: int) -> Reference | None:
    """Return answers kept earlier, if they are answers to the same questions."""
    try:
        known = msgspec.json.decode(path.read_bytes(), type=Reference)
    except (OSError, msgspec.MsgspecError):
        return None
    same = tuple(answer.prompt for answer in known.answers) == tuple(prompts)
    return known if same and all(answer.asked == tokens for answer in known.answers) else None


def read_prompts(bench: Bench) -> tuple[str, ...]:
    """Prompts of the answers guard: the lab's file, or built-in ones.

    Raises:
        LoadError: The file has too few.
    """
    table = bench.config.answers
    if not table.prompts:
        return tuple(PROMPTS[: table.count])
    path = bench.config.root / table.prompts
    try:
        text = read_file(path, hint="[answers] prompts is relative to the lab").decode()
    except UsageError as error:
        raise LoadError(error.message, hint=error.hint) from error
    except UnicodeDecodeError as error:
        raise LoadError(f"{path} cannot be read: {error}", hint="it must be a UTF-8 text file") from error
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) < table.count:
        raise LoadError(f"{path} has {len(lines)} prompts, {table.count} are wanted", hint="lower [answers] count")
    return tuple(lines[: table.count])
