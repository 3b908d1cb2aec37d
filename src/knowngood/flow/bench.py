"""What every procedure needs: the ports, the lab's settings and its memory."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from knowngood.config.lab import LabConfig
from knowngood.config.values import seconds
from knowngood.model.diagnosis import LogRule
from knowngood.model.events import Event
from knowngood.ports import Artifacts, Engine, Host, Load, Store
from knowngood.reason.answers import Answer, Comparison
from knowngood.reason.fold import LabState, fold


class Reporter(Protocol):
    """Where progress is shown while work goes on."""

    def begin(self, title: str, *, expected_s: float) -> None:
        """A piece of work starts that should take ``expected_s`` seconds; 0 if nobody knows."""
        ...

    def advance(self, step: str, share: float) -> None:
        """The work is at ``step``, and ``share`` (0 to 1) of it is done."""
        ...

    def note(self, text: str) -> None:
        """Something a reader wants to keep: a launch's value, a repeated pair, a failure."""
        ...


class Examiner(Protocol):
    """Asks servers for greedy answers and holds one against the other."""

    def ask(self, url: str, prompts: Sequence[str], *, n_tokens: int) -> tuple[Answer, ...]:
        """Let a server answer greedily, one prompt at a time.

        Raises:
            LoadError: It does not answer.
        """
        ...

    def compare(self, url: str, mine: Answer, theirs: Answer) -> Comparison:
        """Hold the candidate's answer (``theirs``) against the baseline's, asking the baseline that runs at ``url``.

        Raises:
            LoadError: It does not answer.
        """
        ...


class Memory:
    """A lab's events and the state they add up to."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.state: LabState = fold(store.events())

    def record(self, event: Event) -> None:
        """Append an event durably, then take it into the state.

        Raises:
            Conflict: Somebody else appended meanwhile.
        """
        self.store.append(event, after=self.state.version)
        self.state = fold(self.store.events(since=self.state.version), self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A lab and its host: enough to look, to recover and to undo.

    Attributes:
        config: The lab's settings.
        host: Machine that the server runs on.
        memory: Events and state.
        artifacts: Raw samples and logs.
        scratch: Directory for files of work under way.
        show: Where progress is shown.
        now: Unix time, in seconds.
    """

    config: LabConfig
    host: Host
    memory: Memory
    artifacts: Artifacts
    scratch: Path
    show: Reporter
    now: Callable[[], float]

    @property
    def folder(self) -> Path:
        """The lab's state folder: overlays and caches lie beside the scratch directory."""
        return self.scratch.parent

    @property
    def ready_timeout_s(self) -> float:
        """Longest wait for readiness, in seconds."""
        return seconds(self.config.server.ready_timeout, where="[server] ready_timeout")

    @property
    def stop_grace_s(self) -> float:
        """Time that a server gets to end by itself, in seconds."""
        return seconds(self.config.server.stop_grace, where="[server] stop_grace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench(Site):
    """A site with the tools that measure laid out.

    Attributes:
        engine: What is special about the server.
        load: Benchmark client.
        examiner: Asks for greedy answers.
        own_rules: What the lab's own rule files say of log lines.
    """

    engine: Engine
    load: Load
    examiner: Examiner
    own_rules: tuple[LogRule, ...] = ()

    @property
    def rules(self) -> tuple[LogRule, ...]:
        """What log lines mean: the lab's own rules first, then the engine's."""
        return (*self.own_rules, *self.engine.rules)
