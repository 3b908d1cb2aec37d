"""Knowledge out of trials: what a change does, where that holds, and whether it is known already."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from knowngood.model.change import Change, ChangeSet, describe
from knowngood.model.diagnosis import Diagnosis
from knowngood.model.finding import Finding, Sign
from knowngood.model.hypothesis import Hypothesis
from knowngood.model.isolation import Culprit
from knowngood.model.verdict import Verdict
from knowngood.reason.blame import GUILTY, SURE

REOPENS = "another version of the engine, or another model"
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
    return digest(b"\n".join(members))


def member_keys(members: Iterable[Change]) -> tuple[str, ...]:
    """Digest of each member, in order of the digests."""
    return tuple(sorted(digest(msgspec.json.encode(member)) for member in members))


def digest(content: bytes) -> str:
    """16 hexadecimal digits of a SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]


def dead_end(findings: Sequence[Finding], changes: ChangeSet, facts: Mapping[str, str]) -> Finding | None:
    """Find the dead end that covers a change set on a host.

    Args:
        findings: What is known.
        changes: What somebody wants to try.
        facts: What holds on the host now.

    Returns:
        The newest finding "impossible" for the same change, or for members that are all part of it, whose scope holds
        here; None if there is none. A set that pins a package looks at another version, so only findings about exactly
        that set cover it.
    """
    key, mine = change_key(changes), set(member_keys(changes.members))
    for finding in reversed(findings):
        in_scope = all(facts.get(name) == value for name, value in finding.scope.items())
        is_part = bool(finding.member_keys) and set(finding.member_keys) <= mine and not changes.pins()
        if finding.sign == "impossible" and in_scope and (finding.change_key == key or is_part):
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
    guilty = guilty_members(hypothesis.changes, diagnosis) if diagnosis is not None and is_dead else ()
    if verdict.decision == "void" and not is_dead:
        return None
    return Finding(
        id=f"f{number:04d}",
        claim=hypothesis.claim,
        sign="impossible" if is_dead else SIGNS[verdict.reason],
        change_key=change_key(hypothesis.changes),
        scope=scope_of(facts),
        evidence=(trial,),
        quote=diagnosis.line if diagnosis else "",
        reopens=(diagnosis.retest or REOPENS).removeprefix("with ") if diagnosis is not None and is_dead else "",
        effect=verdict.estimate,
        member_keys=member_keys(guilty),
        within=diagnosis.scope if diagnosis is not None and is_dead else "",
    )


def guilty_members(changes: ChangeSet, diagnosis: Diagnosis) -> tuple[Change, ...]:
    """Members that a diagnosis holds guilty beyond doubt; none if it is not sure, or if it is all of them."""
    guilty = {one.member for one in diagnosis.suspects if one.sure > GUILTY}
    found = tuple(member for member in changes.members if describe(member) in guilty)
    return found if diagnosis.sure >= SURE and len(found) < len(changes.members) else ()


def learn_culprit(
    *,
    number: int,
    evidence: tuple[str, ...],
    culprit: Culprit,
    changes: ChangeSet,
    diagnosis: Diagnosis | None,
    facts: Mapping[str, str],
) -> Finding | None:
    """Turn a culprit into knowledge.

    Args:
        number: Of the finding, from 1.
        evidence: Ids of the isolation, and of the trial that it explains.
        culprit: What was left out.
        changes: That, and what it fails together with.
        diagnosis: Why it fails.
        facts: What held on the host.

    Returns:
        The finding; None for what was left out although it is not known to fail, or to hurt.
    """
    fails = culprit.alone or bool(culprit.beside)
    hurts = culprit.high is not None and culprit.high < 0
    if not (fails or hurts):
        return None
    names = " together with ".join(" and ".join(part) for part in (culprit.members, culprit.beside) if part)
    is_dead = fails and diagnosis is not None and diagnosis.hard
    return Finding(
        id=f"f{number:04d}",
        claim=f"{names} {'does not run' if fails else 'makes it worse'}",
        sign="impossible" if is_dead else "hurts",
        change_key=change_key(changes),
        scope=scope_of(facts),
        evidence=evidence,
        quote=(diagnosis.line if diagnosis else "") or culprit.why,
        reopens=REOPENS if is_dead else "",
        effect=culprit.estimate,
    )


def scope_of(facts: Mapping[str, str]) -> dict[str, str]:
    """What a finding is bound to."""
    return {name: facts[name] for name in ("engine", "engine_version", "model") if name in facts}
