"""A lab and what can be done with it. Every face calls this; it returns values and raises ``KnowngoodError``."""

import difflib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from knowngood.app.tools import Quiet, open_examiner, open_host, open_load
from knowngood.config.experiment import load_experiment
from knowngood.config.lab import LabConfig, better_direction, find_lab, load_lab
from knowngood.config.rules import lab_rules
from knowngood.errors import NotFound, UsageError
from knowngood.flow.bench import Bench, Memory, Reporter, Site
from knowngood.flow.preflight import left_over, require_known_good
from knowngood.model.baseline import Baseline
from knowngood.model.events import Purpose
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Kind
from knowngood.model.launch import LaunchSpec
from knowngood.plugins import load_engine
from knowngood.ports import Host
from knowngood.reason.fold import LabState
from knowngood.reason.items import Grain
from knowngood.reason.records import Isolation, RaceRun, Trial
from knowngood.stores.artifacts import ArtifactFolder
from knowngood.stores.sqlite import SqliteStore

if TYPE_CHECKING:  # a quick command must not wait for what it does not use
    from knowngood.config.space import LineUp
    from knowngood.flow.capture import Captured
    from knowngood.flow.doctor import Examination
    from knowngood.flow.field import RacePreview
    from knowngood.flow.isolate import Outline
    from knowngood.flow.preview import Preview
    from knowngood.model.race import Point
    from knowngood.reason.rank import Ranked

STATE_FOLDER = ".knowngood"
EXPERIMENTS = "experiments"


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Is the host at known-good?

    Attributes:
        known_good: No trial is under way, nothing is left over, no managed file has drifted.
        baseline: Version of the baseline; 0 before the first.
        running: Who holds the host now, in words; empty if nobody does.
        left_over: What earlier work left behind, one line each.
        drift: Managed files and kept settings that are not what the baseline says.
        drift_diff: What was changed by hand, the first lines of each file; `capture --dry-run` shows all of it.
        alarms: What the engine's checks of itself found, one sentence each.
        trials: Number of trials.
        kept: Trials whose change sets are in force.
    """

    known_good: bool
    baseline: int
    running: str
    left_over: tuple[str, ...]
    drift: tuple[str, ...]
    trials: int
    kept: tuple[str, ...]
    drift_diff: str = ""
    alarms: tuple[str, ...] = ()


class Lab:
    """A lab: settings, host, memory, and what can be done with them.

    Args:
        root: Directory with ``knowngood.toml``.
        show: Where progress is shown; None shows nothing.

    Raises:
        UsageError: The lab file is missing or wrong.
    """

    def __init__(self, root: Path, *, show: Reporter | None = None) -> None:
        self.config: LabConfig = load_lab(root)
        self.folder = self.config.root / STATE_FOLDER
        self.memory = Memory(SqliteStore(self.folder / "store.db"))
        self.artifacts = ArtifactFolder(self.folder / "artifacts")
        self.host: Host = open_host(self.config)
        self.show: Reporter = show or Quiet()

    @classmethod
    def find(cls, start: Path | None = None, *, show: Reporter | None = None) -> "Lab":
        """Open the lab that a directory lies in.

        Raises:
            UsageError: There is none.
        """
        return cls(find_lab(start or Path.cwd()), show=show)

    @property
    def state(self) -> LabState:
        """Everything the lab knows."""
        return self.memory.state

    def site(self) -> Site:
        """The lab and its host, for procedures that measure nothing."""
        return Site(
            config=self.config,
            host=self.host,
            memory=self.memory,
            artifacts=self.artifacts,
            scratch=self.folder / "runs",
            show=self.show,
            now=time.time,
        )

    def bench(self) -> Bench:
        """The site with the tools that measure laid out."""
        site = self.site()
        site.scratch.mkdir(parents=True, exist_ok=True)
        return Bench(
            **{field.name: getattr(site, field.name) for field in fields(site)},
            engine=load_engine(self.config.server.engine),
            load=open_load(self.config, self.host),
            examiner=open_examiner(self.config),
            own_rules=lab_rules(self.config.root),
        )

    def baseline(self) -> Baseline:
        """Measure the known-good state and record it; see ``flow.baseline.record_baseline``."""
        from knowngood.flow.baseline import record_baseline  # noqa: PLC0415  (numpy, only where something is measured)

        return record_baseline(self.bench())

    def try_one(self, hypothesis: Hypothesis, *, profile: str = "", override: str = "", force: bool = False) -> Trial:
        """Test one hypothesis; see ``flow.trial.run_trial``."""
        from knowngood.flow.trial import run_trial  # noqa: PLC0415  (numpy, only where something is measured)

        return run_trial(self.bench(), hypothesis, profile=profile, override=override, force=force)

    def check(self, purpose: Purpose, *, profile: str = "") -> Trial:
        """Have the engine check itself; see ``flow.checks.run_check``."""
        from knowngood.flow.checks import run_check  # noqa: PLC0415  (numpy, only where something is measured)

        return run_check(self.bench(), purpose, profile=profile)

    def alarms(self) -> tuple[str, ...]:
        """What the engine's checks of itself found; see ``reason.checks.alarms``."""
        from knowngood.reason.checks import alarms  # noqa: PLC0415

        return alarms(self.state)

    def due_check(self) -> Purpose | None:
        """Which check of the engine's own is due now; see ``reason.checks.due_check``."""
        from knowngood.reason.checks import due_check  # noqa: PLC0415

        table = self.config.verdict
        return due_check(self.state, self_test_every=table.self_test_every, champion_every=table.champion_every)

    def plan_isolation(
        self, hypothesis: Hypothesis, *, kind: Kind | None = None, grain: Grain | None = None
    ) -> "Outline":
        """Take a change set apart and say what finding its culprits costs; see ``flow.isolate.plan_isolation``."""
        from knowngood.flow.isolate import plan_isolation  # noqa: PLC0415  (numpy, only where something is measured)

        return plan_isolation(self.bench(), hypothesis, kind=kind, grain=grain)

    def isolate(self, outline: "Outline", *, confirm: bool = True) -> Isolation:
        """Find the culprits of a change set; see ``flow.isolate.isolate``."""
        from knowngood.flow.isolate import isolate  # noqa: PLC0415  (numpy, only where something is measured)

        return isolate(self.bench(), outline, confirm=confirm)

    def write_experiment(self, hypothesis: Hypothesis, path: Path) -> tuple[Path, ...]:
        """Write a hypothesis as a new experiment file, with the files that it names; returns all of them.

        Raises:
            UsageError: One stands there already, or cannot be written.
        """
        from knowngood.config.writing import experiment_files  # noqa: PLC0415
        from knowngood.flow.files import write_new_files  # noqa: PLC0415

        return write_new_files(path.parent, experiment_files(hypothesis, path.stem))

    def race(
        self, line_up: "LineUp", *, metrics: tuple[str, str] | None = None, profile: str = ""
    ) -> tuple[RaceRun, Trial | None]:
        """Race candidates, then try the winner; see ``flow.race.run_race``."""
        from knowngood.flow.race import run_race  # noqa: PLC0415  (numpy, only where something is measured)

        return run_race(self.bench(), line_up, metrics=metrics, profile=profile)

    def preview_race(self, line_up: "LineUp", *, profile: str = "") -> "RacePreview":
        """Say what a race would do and cost; see ``flow.field.preview_race``."""
        from knowngood.flow.field import preview_race  # noqa: PLC0415

        return preview_race(self.bench(), line_up, profile=profile)

    def pareto(self, race: RaceRun, metrics: tuple[str, str] | None = None) -> "tuple[Point, ...]":
        """Place everything that was raced in two metrics; see ``reason.pareto.pareto``."""
        from knowngood.reason.pareto import pareto  # noqa: PLC0415

        x, y = metrics or race.metrics
        lower = (better_direction(x) == "lower", better_direction(y) == "lower")
        return pareto(race.launches, (x, y), workload=self.config.workloads[0].name, lower_is_better=lower)

    def status(self) -> Status:
        """Say whether the host is at known-good. Starts nothing and changes nothing."""
        from knowngood.flow.recover import drifted, holder  # noqa: PLC0415

        site = self.site()
        running = holder(site)
        left = () if running else left_over(site)
        try:
            drift = drifted(site)
            shown = self.drift_diff() if drift else ""
        except UsageError as error:  # a managed directory that is gone must not hide what is left over
            drift, shown = (f"[host] managed: {error.message}",), ""
        baseline = self.state.baseline
        return Status(
            known_good=not (running or left or drift),
            baseline=baseline.version if baseline else 0,
            running=running,
            left_over=left,
            drift=drift,
            drift_diff=shown,
            alarms=self.alarms(),
            trials=len(self.state.trials),
            kept=baseline.kept if baseline else (),
        )

    def drift_diff(self) -> str:
        """What was changed by hand; see ``flow.capture.drift_diff``."""
        from knowngood.flow.capture import drift_diff  # noqa: PLC0415

        return drift_diff(self.site())

    def plan_capture(self, *, name: str = "", claim: str = "", roots: Sequence[str] = ()) -> "Captured":
        """Make an experiment of what was edited by hand, and write nothing; see ``flow.capture.plan_capture``."""
        from knowngood.flow.capture import plan_capture  # noqa: PLC0415

        return plan_capture(self.site(), name=name, claim=claim, roots=roots)

    def capture(
        self, *, name: str, claim: str, roots: Sequence[str], agree: Callable[["Captured"], bool]
    ) -> "tuple[Captured, tuple[Path, ...], bool]":
        """Write an experiment of what was edited by hand, then bring the host back to known-good if somebody agrees.

        Args:
            name: Of the hypothesis; empty chooses one.
            claim: What whoever edited believes; empty leaves it open.
            roots: Directories that it is about; none means all that is managed.
            agree: Asked once the experiment is written.

        Returns:
            What was captured, the files written, and whether the host was brought back.
        """
        from knowngood.flow.capture import plan_capture, put_back, write_experiment  # noqa: PLC0415

        site = self.site()
        with self.host.lease(purpose=f"capture in {self.config.root}"):
            captured = plan_capture(site, name=name, claim=claim, roots=roots)
            if not captured.changes:
                return captured, (), False
            written = write_experiment(site, captured)
            agreed = agree(captured)
            if agreed:
                put_back(site, captured)
            return captured, written, agreed

    def recover(self) -> tuple[str, ...]:
        """Bring the host back to known-good after work was cut off; returns what that took, one line each."""
        from knowngood.flow.recover import recover  # noqa: PLC0415

        return recover(self.site())

    def undo(self) -> Trial:
        """Take the last keep back; returns its trial."""
        from knowngood.flow.recover import undo  # noqa: PLC0415

        return undo(self.site())

    def trial(self, name: str) -> Trial:
        """Find a trial or check by its id, or the newest trial of a hypothesis by its name.

        Raises:
            NotFound: There is none; the hint names the nearest.
        """
        if name in self.state.checks:
            return self.state.checks[name]
        trials = self.state.trials
        if name in trials:
            return trials[name]
        for trial in reversed(trials.values()):
            if trial.hypothesis.name == name:
                return trial
        known = [*trials, *(trial.hypothesis.name for trial in trials.values())]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}?" if close else "`knowngood plan` lists them"
        raise NotFound(f"there is no trial {name!r}", hint=hint)

    def hypotheses(self) -> tuple[Hypothesis, ...]:
        """Read all experiment files below ``experiments/``, in the order of their names.

        Raises:
            UsageError: One of them is wrong, or two have one name.
        """
        found = [load_experiment(path) for path in sorted((self.config.root / EXPERIMENTS).glob("*.toml"))]
        names = [hypothesis.name for hypothesis in found]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice:
            raise UsageError(f"two experiments are called {twice}", hint="give each its own name")
        return tuple(found)

    def plan(self) -> "tuple[Ranked, ...]":
        """Hypotheses, the most promising first."""
        from knowngood.reason.rank import rank  # noqa: PLC0415

        baseline = self.state.baseline
        return rank(
            self.hypotheses(),
            tuple(self.state.trials.values()),
            self.state.findings,
            facts=baseline.facts if baseline else {},
            kept=baseline.kept if baseline else (),
        )

    def left_to_do(self) -> tuple[str, ...]:
        """What failed trials leave to do, one sentence each; see ``reason.rank.left_untested``."""
        from knowngood.reason.rank import left_untested  # noqa: PLC0415

        return left_untested(tuple(self.state.trials.values()))

    def mde(self, profile: str = "") -> float:
        """Smallest effect that a trial keeps with 80 % probability, as a ratio minus one."""
        from knowngood.reason.comparison import floor_of  # noqa: PLC0415
        from knowngood.reason.power import mde  # noqa: PLC0415
        from knowngood.reason.profile import find_profile  # noqa: PLC0415

        chosen = find_profile(profile or self.config.verdict.profile)
        floor = floor_of(self.state, self.config.objective.metric, workload=self.config.workloads[0].name)
        return mde(chosen, floor, self.config.worthwhile)

    def preview(self, hypothesis: Hypothesis, *, profile: str = "") -> "Preview":
        """Say what a trial would do and cost; see ``flow.preview.preview``."""
        from knowngood.flow.preview import preview  # noqa: PLC0415

        return preview(self.bench(), hypothesis, profile=profile)

    def examine(self, *, watch_s: float) -> "Examination":
        """Look at the host without starting anything; see ``flow.doctor.examine``."""
        from knowngood.flow.doctor import examine  # noqa: PLC0415

        return examine(self.bench(), watch_s=watch_s)

    def export(self, form: str) -> dict[str, tuple[bytes, int]]:
        """Write the known-good state down; see ``flow.export.render``."""
        from knowngood.flow.export import render  # noqa: PLC0415

        return render(self.bench(), form=form)

    def known_good_launch(self) -> LaunchSpec:
        """How the known-good server is really started.

        Raises:
            UsageError: There is no baseline yet.
            Quarantined: Earlier work was cut off: the files may not be the known-good ones.
        """
        from knowngood.flow.server import which  # noqa: PLC0415

        bench = self.bench()
        baseline = self.state.baseline
        if baseline is None:
            raise UsageError("this lab has no baseline yet", hint="run `knowngood baseline` first")
        require_known_good(bench)
        return bench.engine.resolve(baseline.spec, which=lambda name: which(bench, name))

    def serve(self, spec: LaunchSpec) -> NoReturn:
        """Become the server.

        Raises:
            UsageError: The program cannot be started, or would not be started here.
        """
        if not self.config.host.is_local:
            hint = "`knowngood export` writes a script or a unit for it"
            raise UsageError(f"the server belongs on {self.host.address}, not on this machine", hint=hint)
        env = {name: value for name, value in {**os.environ, **spec.env}.items() if name not in spec.unset}
        try:
            os.chdir(spec.cwd or self.config.root)
            os.execvpe(spec.argv[0], spec.argv, env)  # noqa: S606  (an argv list, no shell)
        except OSError as error:
            raise UsageError(f"{spec.argv[0]} cannot be started: {error.strerror}", hint="knowngood doctor") from error
