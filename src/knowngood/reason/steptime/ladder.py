"""What to try next, from what only looks to what edits sources: each rung with its prediction, its risk and its proof.

Risk, proof and constraints are not written here: they come from the catalogue of knobs, by the names that a rung sets.
"""

import json
import re
from collections.abc import Iterable
from typing import Literal

import msgspec

from knowngood.model.change import Change, Edit, Env, Flag
from knowngood.model.profile import Catalogue, Knob

Rank = Literal[0, 1, 2, 3, 4, 5]
RANKS: dict[Rank, str] = {
    0: "look, change nothing",
    1: "measure aside",
    2: "one variable or flag",
    3: "another draft depth",
    4: "another communicator",
    5: "edit sources",
}


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to try.

    Attributes:
        rank: How dear it is; see ``RANKS``.
        name: Name of the experiment, or of the check.
        claim: What it would show.
        because: Why it is worth a look here.
        command: For a check: what to run; empty for an experiment.
        members: For an experiment: its change set.
        predicts: Change of output tokens per second, lower and upper end, as ratios minus one.
        risk: What can go wrong, worst first.
        proof: How its effect shows.
        constraints: What must hold.
    """

    rank: Rank
    name: str
    claim: str
    because: str
    command: str = ""
    members: tuple[Change, ...] = ()
    predicts: tuple[float, float] | None = None
    risk: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()


def with_knobs(rung: Rung, catalogue: Catalogue) -> Rung:
    """The rung with all that the catalogue knows of what it sets."""
    names = [
        change.name if isinstance(change, Env) else change.flag
        for change in rung.members
        if isinstance(change, Env | Flag)
    ]
    knobs = [knob for name in names for knob in catalogue.knobs if knob.name == name]
    ids = {knob.id for knob in knobs} | {tail for knob in knobs if "_" in (tail := knob.id.partition(".")[2])}
    rules = [
        f"{rule.rule} ({rule.kind})"
        for rule in catalogue.rules
        if any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", rule.rule) for name in ids)
    ]
    return msgspec.structs.replace(
        rung,
        risk=(*rung.risk, *unique(f"{knob.name}: {knob.danger}" for knob in knobs if knob.danger)),
        proof=(*rung.proof, *unique(knob.verify for knob in knobs if knob.verify)),
        constraints=(*rung.constraints, *unique(text for knob in knobs for text in needs(knob)), *rules),
    )


def needs(knob: Knob) -> tuple[str, ...]:
    """What must hold for a knob."""
    hardware = (f"needs {knob.requires_hardware}",) if knob.requires_hardware else ()
    since = (f"since {knob.since}",) if knob.since else ()
    until = (f"until {knob.until}",) if knob.until else ()
    return (*hardware, *since, *until, *knob.constraint)


def unique(texts: Iterable[str]) -> tuple[str, ...]:
    """Each text once, in order."""
    return tuple(dict.fromkeys(texts))


def experiment_text(rung: Rung) -> str:
    """An experiment file for `knowngood try`.

    JSON's strings are TOML's basic strings, but for DEL, which no text of ours holds. Source: TOML 1.0, "String".
    """
    lines = [f"# {RANKS[rung.rank]}; written by knowngood explain"]
    lines += [f"# risk: {one}" for one in rung.risk]
    lines += [f"# proof: {one}" for one in rung.proof]
    lines += [f"# needs: {one}" for one in rung.constraints]
    lines.append(f"claim    = {quote(rung.claim)}")
    lines.append(f"because  = {quote(rung.because)}")
    if rung.predicts is not None:
        low, high = (quote(f"{100 * end:+.0f}%") for end in rung.predicts)
        lines.append(f'predicts = {{ metric = "output_tok_s", change = [{low}, {high}] }}')
    for change in rung.members:
        lines += ["", "[[change]]", *member_lines(change)]
    return "\n".join(lines) + "\n"


def member_lines(change: Change) -> list[str]:
    """One member, as TOML."""
    match change:
        case Env():
            value = [] if change.value is None else [f"value = {quote(change.value)}"]
            return [f"env = {quote(change.name)}", *value]
        case Flag():
            value = [] if change.value is None else [f"value = {quote(change.value)}"]
            return [f"flag = {quote(change.flag)}", *value, *(["remove = true"] if change.remove else [])]
        case Edit():
            return [
                f"edit = {quote(change.path)}",
                f"find = {quote(change.find)}",
                f"replace = {quote(change.replace)}",
            ]
        case _:
            raise TypeError(type(change).__name__)


def quote(text: str) -> str:
    """A TOML basic string."""
    return json.dumps(text, ensure_ascii=False)
