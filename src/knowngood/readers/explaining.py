"""Files and numbers in, explanation out."""

from collections.abc import Sequence
from pathlib import Path

from knowngood.config.facts import load_facts, read_what_if
from knowngood.model.steptime import Facts
from knowngood.readers.knobs import catalogue
from knowngood.readers.sniff import read_any
from knowngood.reason.steptime.evidence import gather
from knowngood.reason.steptime.explain import Explanation, explain
from knowngood.reason.steptime.trial import TrialArms, with_trial


def explain_files(
    facts_file: Path | None,
    files: Sequence[Path],
    *,
    settings: Sequence[str] = (),
    what_if: Sequence[str] = (),
    arms: TrialArms | None = None,
    logs: Sequence[Path] = (),
) -> tuple[Facts, Explanation]:
    """Read everything, then explain it.

    Args:
        facts_file: Numbers that are known, as TOML.
        files: Traces, logs and tables of other tools.
        settings: ``TABLE.KEY=VALUE`` over the facts file.
        what_if: ``KEY=VALUE`` to suppose.
        arms: A trial whose rates fill gaps.
        logs: Its servers' logs, which may say nothing.

    Returns:
        What was known in the end, and what follows.

    Raises:
        UsageError: A file or a number is wrong.
    """
    facts, told = load_facts(facts_file, settings), tuple[str, ...]()
    supposed = read_what_if(what_if)
    read = [reading for path in files for reading in read_any(path)]
    if arms is not None:
        facts, told = with_trial(facts, arms)
    read += [reading for path in logs for reading in read_any(path, strict=False)]
    facts, profiles, notes = gather(facts, read)
    return facts, explain(facts, catalogue(), profiles=profiles, what_if=supposed, notes=(*told, *notes))
