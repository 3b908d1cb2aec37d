"""The few lines of a log that are worth a look, found at the speed of a copy, in constant memory.

The shape of a line is what remains of it in small letters, without digits and signs. A log of a million lines has few
shapes, because most lines differ in numbers only. A shape is judged once, by its words: no rule can find a line whose
shape lacks the rule's key word. Lines of a dull shape are never looked at again, and a block that holds nothing but
dull shapes costs two splits and one set difference.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from knowngood.model.diagnosis import LogRule
from knowngood.model.pattern import Pattern, shape_of

AROUND = 3
"""Lines on either side of a decisive line that are quoted with it."""
LONGEST_LINE = 8192
"""Characters of a line that are looked at: of a longer one the start and the end."""
LONGEST_REST = 65536
"""Bytes kept of a line that has no end yet."""
SHAPES = 50_000
"""Shapes remembered at most; beyond them all are forgotten, which costs time and nothing else."""
BLOCK = 1 << 18
"""Bytes looked at in one go, at least."""

COLOUR = re.compile(rb"\x1b\[[0-9;:]{0,32}[A-Za-z]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line worth a look.

    Attributes:
        number: From 1.
        text: The line, without its end and without colours.
        shape: Its shape.
        rules: Rules that find it.
        block: The lines of its block, with those before it.
        at: Where it stands in the block.
    """

    number: int
    text: str
    shape: bytes
    rules: tuple[LogRule, ...]
    block: list[bytes]
    at: int

    def quote(self) -> "Quote":
        """The line with those around it, free of its block."""
        low = max(0, self.at - AROUND)
        window = tuple(readable(one) for one in self.block[low : self.at + AROUND + 1])
        return Quote(number=self.number, text=self.text, window=window, window_start=self.number - self.at + low)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """A line as it is quoted.

    Attributes:
        number: From 1.
        text: The line, without its end and without colours.
        window: The lines around it.
        window_start: Number of the first of them.
    """

    number: int
    text: str
    window: tuple[str, ...]
    window_start: int


Candidates = tuple[tuple[LogRule, tuple[Pattern, ...]], ...]
"""Rules that may find the lines of a shape, each with those of its patterns that may."""


class Sieve:
    """Finds the lines that a set of rules is about, and those of tracebacks and errors.

    Args:
        rules: What to look for; of two that find the same line the earlier one comes first.
    """

    def __init__(self, rules: Sequence[LogRule]) -> None:
        self.by_key: dict[bytes, list[tuple[int, LogRule, Pattern]]] = {}
        for place, rule in enumerate(rules):
            for pattern in rule.patterns:
                self.by_key.setdefault(pattern.key.encode(), []).append((place, rule, pattern))
        self.keys = frozenset(self.by_key)
        self.dull: set[bytes] = set()
        self.bright: dict[bytes, Candidates] = {}
        self.hushed: dict[bytes, tuple[LogRule, ...]] = {}

    def hush(self, line: Line) -> None:
        """Leave out from now on what says the same as a line: one of its shape that the same rules find."""
        self.hushed[line.shape] = line.rules

    def listen(self) -> None:
        """Leave nothing out any more."""
        self.hushed.clear()

    def lines(self, chunks: Iterable[bytes]) -> Iterator[Line]:
        """Lines worth a look, in order.

        Args:
            chunks: The log in pieces of any size.
        """
        first = 1
        before: list[bytes] = []
        held = b""
        for block, is_last in with_last(blocks(chunks)):
            whole = held + (COLOUR.sub(b"", block) if b"\x1b" in block else block)
            lines = whole.split(b"\n")
            # The last lines wait for the next block, so that every line has its neighbours.
            ready = len(lines) if is_last else max(0, len(lines) - 1 - AROUND)
            held = b"\n".join(lines[ready:])
            context = [*before, *lines]
            for at, shape in self.worth(whole, ready):
                text = readable(lines[at])
                found = self.find(shape, text)
                if self.hushed.get(shape) != found:
                    yield Line(
                        number=first + at, text=text, shape=shape, rules=found, block=context, at=at + len(before)
                    )
            before = context[max(0, len(before) + ready - AROUND) : len(before) + ready]
            first += ready

    def find(self, shape: bytes, text: str) -> tuple[LogRule, ...]:
        """Rules that find a line."""
        candidates = self.bright[shape]
        if not candidates:
            return ()
        lowered = text.lower()
        return tuple(rule for rule, patterns in candidates if rule.finds_by(patterns, text, lowered))

    def worth(self, block: bytes, ready: int) -> Iterator[tuple[int, bytes]]:
        """Positions and shapes of the lines of a block that are worth a look."""
        shapes = shape_of(block).split(b"\n")[:ready]
        seen = set(shapes) - self.dull
        for memory in (self.bright, self.dull, self.hushed):
            if len(memory) > SHAPES:
                memory.clear()
        bright = self.bright
        for shape in seen:
            if shape not in bright:
                self.judge(shape)
        loud = {shape for shape in seen & bright.keys() if not self.is_hushed(shape)}
        if loud:
            yield from ((at, shape) for at, shape in enumerate(shapes) if shape in loud and not self.is_hushed(shape))

    def is_hushed(self, shape: bytes) -> bool:
        """Whether no line of a shape says anything new: all rules that may find one found one that was heard."""
        known = self.hushed.get(shape)
        return known is not None and len(known) == len(self.bright[shape])

    def judge(self, shape: bytes) -> None:
        """Tell whether lines of a shape are worth a look, and who may find them."""
        words = shape.split()
        found: dict[int, tuple[LogRule, list[Pattern]]] = {}
        if not self.keys.isdisjoint(words):
            for word in set(words) & self.keys:
                for place, rule, pattern in self.by_key[word]:
                    if pattern.may_stand(shape):
                        found.setdefault(place, (rule, []))[1].append(pattern)
        if found or is_telling(shape):
            self.bright[shape] = tuple((rule, tuple(patterns)) for _, (rule, patterns) in sorted(found.items()))
        else:
            self.dull.add(shape)


def is_telling(shape: bytes) -> bool:
    """Whether a shape is of an error or of a traceback, whatever the rules say."""
    return (
        b"error" in shape
        or b"exception" in shape
        or b"traceback" in shape
        or b"fatal" in shape
        or b"abort" in shape
        or b"killed" in shape
        or b"fail" in shape
        or b"panic" in shape
        or (b"file " in shape and b" line " in shape)
    )


def readable(line: bytes) -> str:
    """A line as a terminal shows it: what a carriage return overwrites is gone; a very long one is shortened."""
    if len(line) > LONGEST_LINE:
        line = line[: LONGEST_LINE * 3 // 4] + " … ".encode() + line[-LONGEST_LINE // 4 :]
    text = line.decode("utf-8", "replace").rstrip("\r\n")
    return text.rpartition("\r")[2] if "\r" in text else text


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Join and cut chunks so that each ends with a line's end, but for the last."""
    parts: list[bytes] = []
    size = 0
    for chunk in chunks:
        parts.append(chunk)
        size += len(chunk)
        if size < BLOCK:
            continue
        whole = b"".join(parts)
        cut = whole.rfind(b"\n") + 1
        if cut:
            yield whole[:cut]
        rest = whole[cut:]
        if len(rest) > LONGEST_REST:
            rest = rest[: LONGEST_REST // 2] + rest[-LONGEST_REST // 2 :]
        parts, size = [rest], 0
    yield b"".join(parts)


def with_last(items: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Items, each with whether it is the last."""
    waiting: bytes | None = None
    for item in items:
        if waiting is not None:
            yield waiting, False
        waiting = item
    if waiting is not None:
        yield waiting, True
