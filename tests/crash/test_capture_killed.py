"""A capture under SIGKILL before any of its lines: edits by hand are on the host, or whole in the experiment."""

import shutil
import time
from pathlib import Path

from tests.crash.lines import killed_at

from knowngood.app.tools import Quiet
from knowngood.config.experiment import load_experiment
from knowngood.config.lab import load_lab
from knowngood.flow import capture
from knowngood.flow.bench import Memory, Site
from knowngood.flow.managed import take_in
from knowngood.flow.preflight import left_over
from knowngood.flow.recover import recover
from knowngood.hosts.local import LocalHost
from knowngood.model.baseline import Baseline
from knowngood.model.events import BaselineRecorded, BaselineStarted
from knowngood.reason.edits import plan
from knowngood.stores.artifacts import ArtifactFolder
from knowngood.testing.fakes import FakeStore

LAB = '[host]\nmanaged = ["engine"]\n[server]\nengine = "openai"\ncommand = ["x"]\n'
BY_HAND = {"a.py": b"A = 2\n", "b.bin": b"\0new", "made.py": b"M = 1"}


def make_site(room: Path) -> Site:
    """A lab with a baseline, as far as a capture looks at one."""
    (room / "knowngood.toml").write_text(LAB)
    (room / "engine").mkdir(exist_ok=True)
    site = Site(
        config=load_lab(room),
        host=LocalHost(room / "state"),
        memory=Memory(FakeStore()),
        artifacts=ArtifactFolder(room / ".knowngood" / "artifacts"),
        scratch=room / ".knowngood" / "runs",
        show=Quiet(),
        now=time.time,
    )
    spec = site.config.spec
    recorded = Baseline(version=1, spec=spec, origin=spec, roots=take_in(site))
    site.memory.record(BaselineStarted(at=1.0, run="b0001", baseline=recorded, launches=2))
    site.memory.record(BaselineRecorded(at=1.0, run="b0001", baseline=recorded, noise={}))
    return site


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_killed_before_any_line(room: Path) -> None:
    engine = room / "engine"
    engine.mkdir()
    before = {"a.py": b"A = 1\n", "b.bin": b"\0old", "gone.py": b"G = 1\n"}
    for name, content in before.items():
        (engine / name).write_bytes(content)
    site = make_site(room)
    seen: set[str] = set()

    def edit() -> None:
        (engine / "gone.py").unlink()
        for name, content in BY_HAND.items():
            (engine / name).write_bytes(content)

    def work() -> None:
        capture.write_experiment(site, captured)
        capture.put_back(site, captured)

    line = 1
    edit()
    # Planning writes nothing, and the same bytes are edited each time: planned once.
    captured = capture.plan_capture(site, name="n", claim="", roots=())
    while killed_at(line, capture, work):
        recover(site)
        assert left_over(site) == ()
        now = contents(engine)
        seen.add("put back" if now == before else "by hand")
        assert now in (before, BY_HAND), f"line {line}"
        if now == before:
            held = load_experiment(room / "experiments" / "n.toml").changes.edits()
            start: dict[str, bytes | None] = {str(engine / name): before.get(name) for name in (*before, *BY_HAND)}
            made = {Path(one.path).name: one.after for one in plan(held, start)}
            assert made == {**BY_HAND, "gone.py": None}, f"line {line}"
            edit()
        shutil.rmtree(room / "experiments", ignore_errors=True)
        line += 1
    assert contents(engine) == before
    assert seen == {"put back", "by hand"}
    assert line > 50
