"""Read the root cause out of a log.

One pass, constant memory. Of all lines that say what went wrong the first one decides, because programs print a cause
before what follows from it. Around that rule stand the ways in which causes hide: a warning that explains a later
error, wrappers that only report a child's death, symptoms that come minutes late, failures that were survived, features
that are silently off, logs that just stop. Where nothing is left to stand for, the reader abstains and says what to
collect.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from knowngood.model.diagnosis import Diagnosis, LogRule, RunnerUp
from knowngood.reason.sieve import Quote, Sieve
from knowngood.reason.witness import Sighting, Start, Witness

LEDGER: tuple[tuple[str, float, str], ...] = (
    ("cause", 0.9, "it came later"),
    ("generic", 0.4, "its text tells little"),
    ("late", 0.6, "it is a symptom that comes late"),
    ("warned", 0.5, "it is a warning"),
    ("survived", 0.35, "the server became ready after it"),
    ("silent", 0.7, "the server comes up all the same"),
    ("hushed", 0.35, "it is no error by its level, and nothing failed after it"),
)
"""Grounds on which a line can be the cause, the best first: name, confidence, and why a line on that ground came second
to a better one."""
GROUNDS = tuple(ground for ground, _, _ in LEDGER)
CONFIDENCE = {ground: confidence for ground, confidence, _ in LEDGER}
WHY_NOT = {ground: why for ground, _, why in LEDGER}

EXPLAINED = 0.85
"""Confidence in a warning that is known to cause the failure that followed."""
CONFIRMED, CONTESTED = 0.05, 0.15
"""What a parent's report of a death adds, and what another cause of another class takes away."""
STOPPED = 0.4
"""Confidence in a stage at which the log just ends."""
STANDS = 0.6
"""Least confidence at which a failure is called hard: nobody may be kept from a trial by a guess."""
RIVALS = 4
LONGEST_QUOTE = 1000

COLLECT = (
    "the cause is not in this log: collect the output of every process of the server from its start (NCCL_DEBUG=INFO,"
    " PYTHONFAULTHANDLER=1), its exit status, and `dmesg -T` of that time"
)
HEALTHY = "nothing in this log failed; if the server misbehaves all the same, collect its /metrics and a py-spy dump"

SIGNALS = {
    4: "SIGILL: the program uses instructions that this processor lacks; take another build",
    6: "SIGABRT: an assertion in native code; its message stands in the process's own output (stderr)",
    7: "SIGBUS: a mapped file or /dev/shm has no room; look at `df /dev/shm` and at the model's files",
    9: "SIGKILL: the kernel's OOM killer or an administrator; `dmesg -T | grep -i 'killed process'` and the cgroup's"
    " memory.events tell which",
    11: "SIGSEGV in native code: PYTHONFAULTHANDLER=1 and a core dump tell where",
    15: "SIGTERM: somebody asked it to end; look at the orchestrator's probes",
}
"""Signal to what it says of a server that told nothing itself, and what to look at."""


def diagnose(chunks: Iterable[bytes], rules: Sequence[LogRule]) -> Diagnosis:
    """Find the line that says what went wrong.

    Args:
        chunks: The log, in pieces of any size: a binary file's lines or blocks.
        rules: What lines mean; of two that find the same line the earlier one counts.

    Returns:
        The cause with the lines around it and the runners-up. Without one an abstention: cause
        ``undetermined_process_death`` if only secondary lines tell of a failure, else ``unknown``; ``remedy`` says what
        to collect.
    """
    witness = Witness()
    witness.hear(Sieve(rules), chunks)
    start = telling(witness)
    ranked = sorted(stand(start), key=lambda one: (GROUNDS.index(one[0]), order(one)))
    found = decide(start, ranked)
    return msgspec.structs.replace(found, starts=witness.starts)


def telling(witness: Witness) -> Start:
    """The start to read: the newest one in which something failed, else the one that the log ends in."""
    current, failed = witness.current, witness.failed
    return failed if failed is not None and not current.has("cause", "generic", "late", "wrapper") else current


def order(one: tuple[str, Sighting]) -> tuple[float, int]:
    """Where a line stands among those on the same ground: by time; features that are off by how much it matters."""
    ground, sighting = one
    weight = -sighting.rule.confidence if ground in ("silent", "hushed") else 0.0
    return weight, sighting.line.number


def stand(start: Start) -> Iterator[tuple[str, Sighting]]:
    """Lines that could be the cause, each with its ground."""
    failed = start.has("cause", "generic", "late", "wrapper")
    for one in start.sightings.values():
        role = one.rule.role
        if role in ("wrapper", "stage"):
            continue
        if role == "silent":
            yield "silent", one
        elif one.survived and (one.is_loud and role != "warning"):
            yield "survived", one
        elif role == "warning" or not one.is_loud or one.survived:
            if failed and not one.survived:
                yield "warned", one
            elif not start.is_ready:
                yield "hushed", one
        else:
            yield role, one


def decide(start: Start, ranked: Sequence[tuple[str, Sighting]]) -> Diagnosis:
    """Take the best line, or abstain."""
    wrapper = next((one for one in start.sightings.values() if one.rule.role == "wrapper" and not one.survived), None)
    best = next((one for one in ranked if wrapper is None or one[0] not in ("silent", "hushed")), None)
    if best is None:
        others = runners_up(ranked, None)
        if wrapper is not None:
            found = explain(wrapper, confidence=0.0, others=others)
            return msgspec.structs.replace(
                found, cause="undetermined_process_death", abstained=True, remedy=found.remedy or COLLECT
            )
        return stopped(start, others)
    ground, sighting = best
    cause = explanation(start, sighting)
    confidence = cause.rule.confidence or (EXPLAINED if cause is not sighting else CONFIDENCE[ground])
    if wrapper is not None:
        confidence += CONFIRMED
    if ground == "cause" and any(other == "cause" and one.cause != sighting.cause for other, one in ranked):
        confidence -= CONTESTED
    return explain(cause, confidence=min(0.99, confidence), others=runners_up(ranked, cause))


def explanation(start: Start, best: Sighting) -> Sighting:
    """The warning that is known to cause what the best line reports; without one the line itself."""
    for one in start.sightings.values():
        if {best.rule.id, best.cause} & set(one.rule.explains) and one is not best:
            return one
    return best


def runners_up(ranked: Sequence[tuple[str, Sighting]], taken: Sighting | None) -> tuple[RunnerUp, ...]:
    """What else could have been the cause, the next best first."""
    return tuple(
        RunnerUp(cause=one.cause, line=clip(one.line.text), line_number=one.line.number, why_not=WHY_NOT[ground])
        for ground, one in ranked
        if one is not taken
    )[:RIVALS]


def stopped(start: Start, others: tuple[RunnerUp, ...]) -> Diagnosis:
    """What a log without any failure says: the stage that it ends in, or nothing."""
    stage, stranger = start.stage, start.stranger or start.hint
    if stranger is None and stage is not None and stage.rule.cause and not start.is_ready:
        return explain(stage, confidence=stage.rule.confidence or STOPPED, others=others)
    remedy = HEALTHY if stranger is None and start.is_ready else COLLECT
    if stranger is None:
        return Diagnosis(cause="unknown", abstained=True, remedy=remedy, others=others)
    return Diagnosis(
        cause="unknown", abstained=True, remedy=remedy, others=others, window=clipped(stranger),
        window_start=stranger.window_start, line=clip(stranger.text), line_number=stranger.number,
    )  # fmt: skip


def explain(one: Sighting, *, confidence: float, others: tuple[RunnerUp, ...]) -> Diagnosis:
    """What a rule says about the line that it found."""
    rule = one.rule
    return Diagnosis(
        cause=one.cause,
        line=clip(one.line.text),
        line_number=one.line.number,
        component=rule.component,
        hard=rule.hard and confidence >= STANDS,
        scope=rule.scope,
        remedy=rule.remedy,
        confidence=round(confidence, 2),
        flags=rule.flags,
        rule=rule.id,
        retest=rule.retest,
        window=clipped(one.line),
        window_start=one.line.window_start,
        process=one.origin.process,
        times=one.times,
        others=others,
        frames=one.frames,
        env=rule.env,
        about=rule.about,
        conflict=rule.conflict,
    )


def clipped(line: Quote) -> tuple[str, ...]:
    """The lines around a line, each of a length that can be shown."""
    return tuple(clip(text) for text in line.window)


def clip(text: str) -> str:
    """A line of a length that can be shown."""
    return text if len(text) <= LONGEST_QUOTE else f"{text[: LONGEST_QUOTE - 1]}…"


def with_end(found: Diagnosis, *, signal: int = 0, silent_s: float | None = None) -> Diagnosis:
    """Add what is known of the process itself to what its log says.

    Args:
        found: What the log says.
        signal: Signal that ended it; 0 if none did.
        silent_s: Seconds for which it has done nothing, if it lives and is not ready; 0 while it makes progress; None
            if it ended.

    Returns:
        The diagnosis; where the log abstains, what the end tells: a slow start, a standstill, what a signal means.
    """
    if not found.abstained:
        return found
    if signal in SIGNALS:
        return msgspec.structs.replace(found, cause="undetermined_process_death", remedy=SIGNALS[signal])
    if silent_s == 0:
        remedy = "it still makes progress: raise [server] ready_timeout, or warm its caches first"
        return msgspec.structs.replace(found, cause="slow_start_timeout", remedy=remedy)
    if silent_s is not None:
        remedy = "it lives and does nothing: collect a stack dump (py-spy dump --pid) of each of its processes"
        return msgspec.structs.replace(found, remedy=remedy)
    return found
