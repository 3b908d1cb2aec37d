"""Knowledge out of trials: what a change does, where that holds, and whether it is known already."""

import hashlib
from collections.abc import Mapping, Sequence

import msgspec

from knowngood.model.change import ChangeSet
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.finding import Finding, Sign
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.verdict import Verdict

SIGNS: dict[str, Sign] = {
    "better": "helps",
    "regression": "hurts",
    "guard": "hurts",
    "not_worthwhile": "no_effect",
    "undecided": "undecided",
}


def change_key(changes: ChangeSet) -> str:
    """Digest of a change set in normal form: order and names do not matter, effects do.

    Returns:
        16 hexadecimal digits.
    """
    members = sorted(msgspec.json.encode(member) for member in changes.members)
    return hashlib.sha256(b"\n".join(members)).hexdigest()[:16]


def dead_end(findings: Sequence[Finding], changes: ChangeSet, facts: Mapping[str, str]) -> Finding | None:
    """Find the dead end that covers a change set on a host.

    Args:
        findings: What is known.
        changes: What somebody wants to try.
        facts: What holds on the host now.

    Returns:
        The newest finding "impossible" for the same change whose scope holds here; None if there is none.
    """
    key = change_key(changes)
    for finding in reversed(findings):
        covers = all(facts.get(name) == value for name, value in finding.scope.items())
        if finding.sign == "impossible" and finding.change_key == key and covers:
            return finding
    return None


def dead_ends(findings: Sequence[Finding], facts: Mapping[str, str]) -> tuple[str, ...]:
    """Keys of all change sets that are dead ends on a host; see ``dead_end``."""
    return tuple(
        finding.change_key
        for finding in findings
        if finding.sign == "impossible" and all(facts.get(name) == value for name, value in finding.scope.items())
    )


def learn(
    *,
    number: int,
    trial: str,
    hypothesis: Hypothesis,
    verdict: Verdict,
    diagnosis: Diagnosis | None,
    facts: Mapping[str, str],
) -> Finding | None:
    """Turn the end of a trial into knowledge.

    Args:
        number: Of the finding, from 1.
        trial: Id of the trial.
        hypothesis: What was tested.
        verdict: What came out.
        diagnosis: Why it was void.
        facts: What held on the host.

    Returns:
        The finding; None for a void trial that proves nothing about the change (a fixable failure is no dead end).
    """
    is_dead = verdict.decision == "void" and diagnosis is not None and diagnosis.hard
    if verdict.decision == "void" and not is_dead:
        return None
    return Finding(
        id=f"f{number:04d}",
        claim=hypothesis.claim,
        sign="impossible" if is_dead else SIGNS[verdict.reason],
        change_key=change_key(hypothesis.changes),
        scope={name: facts[name] for name in ("engine", "engine_version", "model") if name in facts},
        evidence=(trial,),
        quote=diagnosis.line if diagnosis else "",
        reopens="another version of the engine, or another model" if is_dead else "",
        effect=verdict.estimate,
    )
