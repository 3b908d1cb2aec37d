"""What a log says, start by start of the server: the lines that rules find, with who wrote them and what came before.

Constant memory: of each rule the first line is kept, of each process the last calls.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from knowngood.model.diagnosis import LogRule, Phase
from knowngood.reason.origin import TRACEBACK, Origin, read_origin
from knowngood.reason.sieve import Line, Quote, Sieve

CALLS = 24
"""Calls remembered of a traceback, the innermost ones."""
PROCESSES = 256
"""Processes whose tracebacks are followed at a time."""
NEAR = 14
"""Lines within which an exception's own line takes the place of the source line or message that said the same."""
ENOUGH = 1000
"""Times after which a line that comes again is not counted any more."""
AFTERMATH = 400
"""Lines within which a stage that is named after a failure still tells when it happened."""
FAILING = ("cause", "generic", "late", "wrapper")


@dataclass(slots=True, kw_only=True)
class Sighting:
    """The first line that a rule found in a start.

    Attributes:
        rule: The rule.
        line: The line, with those around it.
        origin: Who wrote it.
        frames: Files of the calls that led to it, the innermost last.
        phase: How far the server had come; None if nothing told.
        times: How often the rule found a line.
        survived: The server became ready after it.
    """

    rule: LogRule
    line: Quote
    origin: Origin
    frames: tuple[str, ...]
    phase: Phase | None
    times: int = 1
    survived: bool = False

    @property
    def cause(self) -> str:
        """Class of the failure, at the phase that it happened in."""
        return self.rule.phases.get(self.phase or "", self.rule.cause)

    @property
    def is_loud(self) -> bool:
        """Whether the line is meant as a failure: not a warning, not information."""
        return self.origin.level in ("error", "")

    @property
    def is_certain(self) -> bool:
        """Whether something really failed here: an error by its level, or the end of a traceback."""
        return self.origin.level == "error" or (self.origin.is_exception and bool(self.frames))


@dataclass(slots=True)
class Trace:
    """Where a process is in its traceback."""

    frames: deque[str] = field(default_factory=lambda: deque(maxlen=CALLS))
    frame_at: int = 0
    phase: Phase | None = None


@dataclass(slots=True)
class Start:
    """One start of the server.

    Attributes:
        sightings: Rule id to what it found, in order of appearance.
        phase: How far the server has come.
        is_ready: Whether it became ready.
        stage: The last line that told what it was doing.
        hint: The last kind of line that looks like an error and that no rule knows.
        stranger: The first exception that no rule knows.
    """

    sightings: dict[str, Sighting] = field(default_factory=dict)
    phase: Phase | None = None
    is_ready: bool = False
    stage: Sighting | None = None
    hint: Quote | None = None
    stranger: Quote | None = None

    def has(self, *roles: str) -> bool:
        """Whether a rule of one of these roles found a line that was not survived."""
        return any(one.rule.role in roles and not one.survived for one in self.sightings.values())


class Witness:
    """Takes lines in and keeps what they testify.

    Attributes:
        starts: Number of starts seen.
        current: The start that the log is in.
        failed: The newest earlier start in which something failed; None if there is none.
        turned: The server's state has turned since the last line: what said nothing new may say something again.
    """

    def __init__(self) -> None:
        self.starts = 1
        self.current = Start()
        self.failed: Start | None = None
        self.traces: dict[str, Trace] = {}
        self.tracing = ""
        self.turned = False

    def hear(self, sieve: Sieve, chunks: Iterable[bytes]) -> None:
        """Take a log in."""
        for line in sieve.lines(chunks):
            if self.take(line):
                sieve.hush(line)
            if self.turned:
                sieve.listen()
                self.turned = False

    def take(self, line: Line) -> bool:
        """Take one line in.

        Returns:
            Whether lines of its shape say nothing new until the server's state turns.
        """
        origin = read_origin(line.text)
        is_header = TRACEBACK in line.text
        if is_header:
            self.open_trace(origin.process)
        trace = self.traces.get(origin.process) or self.traces.get(self.tracing)
        frame = origin.frame
        if frame is not None:
            trace = trace or self.open_trace(origin.process)
            trace.frames.append(frame)
            trace.frame_at = line.number
        for rule in line.rules:
            if rule.role == "stage":
                self.reach(rule, line, origin, trace if frame is not None else None)
        if frame is not None:
            return False
        told = [rule for rule in line.rules if rule.role not in ("stage", "generic")]
        # A line that a rule knows by its text is not also what its type alone would make of it.
        told = told or [rule for rule in line.rules if rule.role == "generic"]
        for rule in told:
            self.record(rule, line, origin, trace)
        if is_header:
            return False
        if told:
            return all(self.current.sightings[rule.id].times >= ENOUGH for rule in told)
        if line.rules:
            return self.current.is_ready and self.current.phase == "serve"
        self.note(line, origin)
        return True

    def open_trace(self, process: str) -> Trace:
        """Begin a traceback of a process."""
        if len(self.traces) >= PROCESSES:
            self.traces.clear()
        self.tracing = process
        self.traces[process] = Trace()
        return self.traces[process]

    def reach(self, rule: LogRule, line: Line, origin: Origin, trace: Trace | None) -> None:
        """Take in what the server is doing, or, from a call, what it was doing when it failed."""
        if trace is not None:
            trace.phase = rule.phase
            self.date_back(rule.phase, line.number)
            return
        if rule.phase == "start" and self.current.has(*FAILING):
            self.failed = self.current
            self.current = Start()
            self.starts += 1
            self.traces.clear()
            self.turned = True
        start = self.current
        self.date_back(rule.phase, line.number)
        self.turned = self.turned or start.phase != rule.phase
        start.phase = rule.phase
        # A parent that reported a dead child does not become ready: that line is another process's.
        is_fine = origin.level != "error" and not start.has("wrapper")
        if rule.phase == "serve" and not start.is_ready and is_fine:
            start.is_ready = True
            self.turned = True
            for one in start.sightings.values():
                one.survived = one.rule.role != "silent"
        sighting = Sighting(rule=rule, line=line.quote(), origin=origin, frames=(), phase=rule.phase)
        if rule.explains:
            start.sightings.setdefault(rule.id, sighting)
        start.stage = sighting

    def date_back(self, phase: Phase | None, number: int) -> None:
        """Tell failures that came before any word on the phase, and not long before, when they happened."""
        if self.current.phase is None:
            for one in self.current.sightings.values():
                if one.phase is None and number - one.line.number <= AFTERMATH:
                    one.phase = phase

    def record(self, rule: LogRule, line: Line, origin: Origin, trace: Trace | None) -> None:
        """Keep what a rule found: its first line, or the exception's own line if that follows closely."""
        is_near_calls = trace is not None and line.number - trace.frame_at <= NEAR
        frames = tuple(trace.frames) if trace is not None and is_near_calls else ()
        phase = (trace.phase if trace is not None and is_near_calls else None) or self.current.phase
        known = self.current.sightings.get(rule.id)
        if known is not None:
            known.times += 1
            if not self.is_better(known, line, origin):
                return
            phase = phase or known.phase
        new = Sighting(rule=rule, line=line.quote(), origin=origin, frames=frames, phase=phase)
        new.times = known.times if known is not None else 1
        self.current.sightings[rule.id] = new

    def is_better(self, known: Sighting, line: Line, origin: Origin) -> bool:
        """Whether another line of a rule says more: an exception's own line, or one that was not survived."""
        same = origin.process == known.origin.process or not origin.process
        is_near = same and line.number - known.line.number <= NEAR
        is_clearer = origin.is_exception and not known.origin.is_exception and is_near
        return is_clearer or (known.survived and known.rule.role != "silent")

    def note(self, line: Line, origin: Origin) -> None:
        """Remember a line that looks like an error although no rule knows it."""
        if origin.is_exception and self.current.stranger is None:
            self.current.stranger = line.quote()
        if origin.is_telling and not origin.is_source and origin.level in ("error", ""):
            self.current.hint = line.quote()
