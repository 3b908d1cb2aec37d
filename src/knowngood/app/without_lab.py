"""What needs no lab, or makes one."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from knowngood.app.lab import Lab
from knowngood.app.tools import open_host
from knowngood.config.experiment import load_experiment
from knowngood.config.lab import better_direction, find_lab, load_lab
from knowngood.config.rules import lab_rules
from knowngood.config.values import ratio, seconds
from knowngood.errors import UsageError
from knowngood.model.diagnosis import Diagnosis, LogRule
from knowngood.model.hypothesis import Hypothesis
from knowngood.plugins import engine_names, load_engine

if TYPE_CHECKING:  # a quick command must not wait for what it does not use
    from knowngood.model.measured import Ruling
    from knowngood.model.steptime import Facts
    from knowngood.reason.steptime.explain import Explanation


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


def recover_host(folder: Path | None) -> tuple[str, ...]:
    """Bring the host of a lab back whose memory cannot be read; see ``flow.recover.recover_without_memory``.

    Args:
        folder: The lab; None looks from the working directory upwards.
    """
    from knowngood.flow.recover import recover_without_memory  # noqa: PLC0415

    config = load_lab(folder or find_lab(Path.cwd()))
    grace_s = seconds(config.server.stop_grace, where="[server] stop_grace")
    return recover_without_memory(open_host(config), grace_s=grace_s)


def left_on_host(folder: Path | None) -> tuple[str, ...]:
    """What is left over on the host of a lab, as far as the host's own journal tells."""
    from knowngood.flow.recover import left_without_memory  # noqa: PLC0415

    return left_without_memory(open_host(load_lab(folder or find_lab(Path.cwd()))))


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


def judge_runs(
    samples: Path, *, noise: Path | None = None, metric: str = "", direction: str = "", worthwhile: str, profile: str
) -> "Ruling":
    """Give the verdict on runs that were made elsewhere; needs no lab. See ``reason.elsewhere.rule_on``.

    Args:
        samples: File of runs, CSV or JSON lines (``-`` is standard input).
        noise: File of further baseline launches, in the same form.
        metric: The metric that decides; empty means the only one there is.
        direction: ``higher`` or ``lower`` is better; empty means what the metric's name implies.
        worthwhile: Smallest gain worth keeping, such as ``2%``.
        profile: How much evidence is wanted.

    Raises:
        UsageError: A file cannot be read, a row is wrong, or it is not clear which metric decides.
    """
    from knowngood.config.measured import load_measured  # noqa: PLC0415
    from knowngood.model.measured import Question  # noqa: PLC0415
    from knowngood.reason.elsewhere import only_metric, rule_on  # noqa: PLC0415  (numpy, only to judge)

    offer = load_measured(samples)
    metric = metric or only_metric(offer)
    question = Question(
        metric=metric,
        direction="lower" if (direction or better_direction(metric)) == "lower" else "higher",
        worthwhile=ratio(worthwhile, where="--worthwhile"),
        profile=profile,
    )
    return rule_on(offer, question, history=load_measured(noise) if noise else None)


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
