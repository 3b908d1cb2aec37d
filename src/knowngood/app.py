"""The use cases, and the one place where rooms are put together.

Every face calls these; they return values and raise ``KnowngoodError``.
"""

import difflib
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec

from knowngood.config.experiment import load_experiment
from knowngood.config.lab import LabConfig, better_direction, find_lab, load_lab
from knowngood.config.rules import lab_rules
from knowngood.config.values import seconds
from knowngood.errors import NotFound, UsageError
from knowngood.flow.bench import Bench, Examiner, Memory, Reporter, Site
from knowngood.flow.preflight import left_over, require_known_good
from knowngood.hosts.local import LocalHost
from knowngood.model.baseline import Baseline
from knowngood.model.diagnosis import Diagnosis, LogRule
from knowngood.model.events import Purpose
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Kind
from knowngood.model.launch import LaunchSpec
from knowngood.plugins import engine_names, load_engine
from knowngood.ports import Host, Load
from knowngood.reason.fold import Isolation, LabState, RaceRun, Trial
from knowngood.reason.items import Grain
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
    from knowngood.model.steptime import Facts
    from knowngood.reason.rank import Ranked
    from knowngood.reason.steptime.explain import Explanation

STATE_FOLDER = ".knowngood"
EXPERIMENTS = "experiments"
SHORTEST_TTL_S = 1.0


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
        drift = drifted(site)
        baseline = self.state.baseline
        return Status(
            known_good=not (running or left or drift),
            baseline=baseline.version if baseline else 0,
            running=running,
            left_over=left,
            drift=drift,
            drift_diff=self.drift_diff() if drift else "",
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


class Quiet:
    """A reporter that shows nothing."""

    def begin(self, title: str, *, expected_s: float) -> None:
        """Show nothing."""

    def advance(self, step: str, share: float) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Show nothing."""


def open_host(config: LabConfig) -> Host:
    """The lab's host; one that is far away is reached when it is first asked for something.

    Raises:
        UsageError: The address is none, or the lease too short.
    """
    table = config.host
    ttl_s = seconds(config.lease.ttl, where="[lease] ttl")
    if ttl_s < SHORTEST_TTL_S:
        raise UsageError(f"[lease] ttl is {config.lease.ttl}", hint=f"at least {SHORTEST_TTL_S:g}s, such as 2m")
    if table.is_local:
        return LocalHost(ttl_s=ttl_s)
    scheme, _, name = table.address.partition("://")
    # A name with a dash in front would be taken for an option.
    if table.address != "local" and (scheme != "ssh" or not name or name.startswith("-")):
        raise UsageError(f"[host] address is {table.address!r}", hint='"local", or "ssh://NAME" as in `ssh NAME`')
    from knowngood.hosts.ssh import SshHost  # noqa: PLC0415

    return SshHost(name, prefix=table.through, python=table.python, sudo=table.sudo, ttl_s=ttl_s)


def open_load(config: LabConfig, host: Host) -> Load:
    """The benchmark client that fits the engine."""
    if config.server.metrics_file and not config.host.is_local:
        hint = "take it away, and have the program print the metrics as its last line"
        raise UsageError("[server] metrics_file is a file of this machine, and the host is another", hint=hint)
    if config.server.engine == "command":
        from knowngood.loads.program import Program  # noqa: PLC0415

        return Program(metrics_file=config.server.metrics_file)
    from knowngood.loads.client import Client  # noqa: PLC0415

    return Client(lead=host.lead if config.host.load_from == "host" else None, python=config.host.python)


def open_examiner(config: LabConfig) -> Examiner:
    """Who asks for greedy answers, in the dialect of the engine."""
    from knowngood.loads.examiner import Questioner  # noqa: PLC0415

    return Questioner("llamacpp" if config.server.engine == "llamacpp" else "openai")


def read_experiments(paths: Sequence[Path]) -> tuple[Hypothesis, ...]:
    """Read experiment files in the order given.

    Raises:
        UsageError: One of them is missing or wrong: nothing is started then.
    """
    if not paths:
        raise UsageError("no experiment file was named", hint="knowngood try experiments/NAME.toml")
    return tuple(load_experiment(path) for path in paths)


def make_demo_lab(folder: Path, *, quick: bool) -> tuple[Path, ...]:
    """Fetch the demo's model and write its lab.

    Args:
        folder: Where to.
        quick: Whether shorter runs and less evidence will do.

    Returns:
        The experiment files, in the order in which they tell a story.

    Raises:
        HostError: The model cannot be fetched, or the folder cannot be written.
        UsageError: There is a lab already.
    """
    from knowngood.demo.lab import write_lab  # noqa: PLC0415
    from knowngood.demo.model import fetch_model, wrong_vocabulary_draft  # noqa: PLC0415
    from knowngood.demo.size import slowness  # noqa: PLC0415

    model = fetch_model()
    draft = wrong_vocabulary_draft(model)
    return write_lab(folder, model=model, draft=draft, quick=quick, slowness=slowness())


def explain_step(
    facts_file: Path | None,
    files: Sequence[Path],
    *,
    settings: Sequence[str] = (),
    what_if: Sequence[str] = (),
    lab: Lab | None = None,
    trial: str = "",
) -> "tuple[Facts, Explanation]":
    """Say where a step's time goes; starts nothing, and needs no lab but for ``trial``.

    Args:
        facts_file: Numbers that are known, as TOML.
        files: Traces, logs and tables of other tools, found out by what stands in them.
        settings: ``TABLE.KEY=VALUE`` over the facts file.
        what_if: ``KEY=VALUE`` to suppose.
        lab: Lab of the trial.
        trial: Its id, or its hypothesis's name.

    Raises:
        UsageError: A file or a number is wrong.
    """
    from knowngood.readers.explaining import explain_files  # noqa: PLC0415
    from knowngood.reason.steptime.trial import arms_of  # noqa: PLC0415

    arms = None
    if lab is not None and trial:
        aliases, concurrency = load_engine(lab.config.server.engine).aliases, lab.config.workloads[0].concurrency
        arms = arms_of(lab.state, lab.trial(trial), aliases=aliases, concurrency=concurrency)
    logs = tuple(lab.artifacts.path(log) for log in arms.logs) if lab is not None and arms else ()
    return explain_files(facts_file, files, settings=settings, what_if=what_if, arms=arms, logs=logs)


def describe_server(words: Sequence[str], *, pid: int | None, engine: str) -> tuple[str, tuple[str, ...]]:
    """Text of a lab file for a server.

    Args:
        words: Its launch command.
        pid: Or its process id, if it runs already; it is left alone.
        engine: Name of its engine; empty guesses by the command.

    Returns:
        The text, and what a reader must know of it.

    Raises:
        UsageError: There is neither a command nor such a process, or there is no such engine.
    """
    from knowngood.flow.adopt import adopt, lab_text, launch_of  # noqa: PLC0415

    if engine:
        load_engine(engine)
    launch, notes = launch_of(words) if pid is None else adopt(pid)
    return lab_text(launch, engine=engine), notes


def diagnose_log(log: Path | str, *, engine: str = "", near: Path | None = None) -> Diagnosis:
    """Read the root cause out of a log; needs no lab.

    Args:
        log: Path of the log (``-`` is standard input, gzip is unpacked), or its text if that has more than one line.
        engine: Whose log it is; empty tries all rules.
        near: If this directory lies in a lab, the lab's own rule files are used, too.

    Raises:
        UsageError: The file cannot be read, there is no such engine, or a rule file of the lab is wrong.
    """
    from knowngood.flow.logs import read_blocks  # noqa: PLC0415
    from knowngood.reason.diagnose import diagnose  # noqa: PLC0415

    names = (engine,) if engine else engine_names()
    own = lab_rules_near(near) if near is not None else ()
    rules = {rule.id: rule for rule in (*own, *(rule for name in names for rule in load_engine(name).rules))}
    is_text = isinstance(log, str) and "\n" in log
    return diagnose((str(log).encode(),) if is_text else read_blocks(log), tuple(rules.values()))


def lab_rules_near(folder: Path) -> tuple[LogRule, ...]:
    """Rule files of the lab that a directory lies in; none if it lies in none."""
    try:
        root = find_lab(folder)
    except UsageError:
        return ()
    return lab_rules(root)
