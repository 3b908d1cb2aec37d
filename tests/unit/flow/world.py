"""A lab on a fake machine, for tests of the procedures."""

import random
from collections.abc import Callable
from pathlib import Path

from knowngood.config.lab import AnswersTable, HostTable, LabConfig, ObjectiveTable, ServerTable, VerdictTable
from knowngood.flow.baseline import record_baseline
from knowngood.flow.bench import Bench, Memory
from knowngood.model.change import Change, ChangeSet, Edit, Flag
from knowngood.model.events import Event
from knowngood.model.evidence import Proof, RunRecord
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.workload import Workload
from knowngood.ports import Observed
from knowngood.reason.answers import Answer, Comparison
from knowngood.stores.artifacts import ArtifactFolder
from knowngood.testing.fakes import FakeClock, FakeEngine, FakeHost, FakeLoad, FakeStore

FILE = "/srv/engine.py"


class NoAnswers:
    def ask(self, url: str, prompts: object, *, n_tokens: int) -> tuple[Answer, ...]:
        raise AssertionError

    def compare(self, url: str, mine: Answer, theirs: Answer) -> Comparison:
        raise AssertionError


class Quiet:
    def begin(self, title: str, *, expected_s: float) -> None: ...
    def advance(self, step: str, share: float) -> None: ...
    def note(self, text: str) -> None: ...


class World:
    """A lab on a fake machine whose server's speed is a function of its arguments, environment and files."""

    def __init__(
        self, tmp_path: Path, speed: Callable[["World"], float], *, noise: float = 0.01, seed: int = 1
    ) -> None:
        self.clock = FakeClock()
        self.random = random.Random(seed)
        self.noise = noise
        self.speed = speed
        self.foreign: Callable[[int], float] = lambda _: 0.0
        self.errors: Callable[[World], int] = lambda _: 0
        self.proof: Callable[[Change, Observed], Proof] | None = None
        self.host = FakeHost({FILE: b"fast = False\n"})
        self.store = FakeStore()
        self.tmp = tmp_path
        self.runs = 0
        self.bench = self.open()

    def open(self) -> Bench:
        return Bench(
            config=self.config(),
            host=self.host,
            engine=FakeEngine(self.proof),
            load=FakeLoad(self.measure),
            examiner=NoAnswers(),
            memory=Memory(self.store),
            artifacts=ArtifactFolder(self.tmp / "artifacts"),
            scratch=self.tmp,
            show=Quiet(),
            now=self.clock,
        )

    def config(self) -> LabConfig:
        return LabConfig(
            root=self.tmp,
            host=HostTable(),
            server=ServerTable(engine="fake", command=("server", "--slots", "1")),
            workloads=(Workload(concurrency=4),),
            objective=ObjectiveTable(),
            worthwhile=0.02,
            direction="higher",
            guards={"error_rate": 0.0, "ttft_p99_ms": 0.10},
            answers_mode="off",
            answers=AnswersTable(),
            verdict=VerdictTable(profile="quick"),
        )

    def measure(self, workload: Workload) -> RunRecord:
        self.clock.sleep(90)
        value = 100 * self.speed(self) * (1 + self.random.gauss(0, self.noise))
        foreign = self.foreign(self.runs)
        self.runs += 1
        ttft = 1000 / value
        return RunRecord(
            workload=workload.name,
            metrics={"output_tok_s": value, "ttft_p99_ms": ttft},
            requests=100,
            errors=self.errors(self),
            seconds=60.0,
            foreign_cores=foreign,
            error_kinds={"timeout": 1},
        )

    @property
    def argv(self) -> tuple[str, ...]:
        return self.host.launches[-1].argv

    def has(self, *words: str) -> bool:
        return " ".join(words) in " ".join(self.argv)

    def events(self, kind: type[Event]) -> list[Event]:
        return [event for event in self.store.log if isinstance(event, kind)]


def hypothesis(*members: Change, name: str = "idea", after: tuple[str, ...] = ()) -> Hypothesis:
    return Hypothesis(name=name, claim="it helps", changes=ChangeSet(members=members), after=after)


SLOTS = Flag(flag="--slots", value="4")
EDIT = Edit(path=FILE, find="False", replace="True")


def ready(tmp_path: Path, speed: Callable[[World], float], **options: float) -> World:
    world = World(tmp_path, speed, **options)  # type: ignore[arg-type]
    record_baseline(world.bench)
    return world
