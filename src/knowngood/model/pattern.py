"""Patterns of log lines: plain text with stars, linear to match by construction.

A pattern is text as it stands in the log. ``*`` stands for anything, upper and lower case are one, and a pattern
begins and ends at whole words unless a star touches the word: ``sm_12*`` finds ``sm_121a``, ``MemoryError`` does not
find ``OutOfMemoryError``. There is nothing else to learn, and nothing that could make a line slow to match: each piece
is looked for once, from where the piece before it ended.
"""

import re
import string
from functools import cached_property

STAR = "*"
COMMON = frozenset(
    re.findall(
        r"\w+",
        "and are but can cannot could cuda current device does error exception failed file for from gpu has have"
        " info is line memory model must not only process python runtimeerror server supported support that the this to"
        " torch unable using valueerror vllm warning was with",
    )
)
"""Words that stand in many lines and tell little: a pattern is found by another of its words, if it has one."""

SHAPE = bytes(
    ord(letter.lower()) if letter in string.ascii_letters + "_\n" else ord(" ") for letter in map(chr, range(256))
)
DIGITS = string.digits.encode()


def shape_of(text: bytes) -> bytes:
    """What remains of a text in small letters, without digits and signs; each line keeps its end.

    A text stands in another only if its shape stands in the other's shape.
    """
    return text.translate(SHAPE, DIGITS)


WORD = re.compile(r"[a-z_]{3,}")


class Pattern:
    """One pattern, compiled.

    Args:
        text: The pattern.

    Attributes:
        key: Its rarest whole word, without digits, by which lines are told apart quickly; empty if it has none.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces = tuple(piece for piece in text.split(STAR) if piece)
        self.lowered = tuple(piece.lower() for piece in self.pieces)
        self.shapes = tuple(shape_of(piece.encode()) for piece in self.pieces)
        self.key = max(whole_words(text), key=lambda word: (word not in COMMON, len(word)), default="")

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The regular expression: anchored, and atomic at every piece, so that it never goes back."""
        head = r"(?<![A-Za-z0-9_])" if is_word(self.text[0]) else ""
        tail = r"(?![A-Za-z0-9_])" if is_word(self.text[-1]) else ""
        parts = [re.escape(piece) for piece in self.pieces]
        parts[0] = head + parts[0]
        parts[-1] += tail
        return re.compile("".join(f"(?>.*?{part})" for part in parts), re.IGNORECASE | re.DOTALL | re.ASCII)

    def may_stand(self, shape: bytes) -> bool:
        """Whether a line of this shape can hold the pattern at all."""
        at = 0
        for piece in self.shapes:
            at = shape.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return True

    def finds(self, line: str, lowered: str) -> bool:
        """Whether the pattern stands in a line; the line in small letters tells quickly that it does not."""
        at = 0
        for piece in self.lowered:
            at = lowered.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return self.compiled.match(line) is not None


def is_word(letter: str) -> bool:
    """Whether a character belongs to a word."""
    return letter.isascii() and (letter.isalnum() or letter == "_")


def whole_words(text: str) -> list[str]:
    """Words of a pattern that must stand whole in a line that it finds; digits are left out of them.

    A word is whole if neither of its ends touches a star.
    """
    bare = "".join(letter for letter in text.lower() if not letter.isdigit())
    found: list[str] = []
    for match in WORD.finditer(bare):
        before, after = bare[: match.start()][-1:], bare[match.end() :][:1]
        if STAR not in (before, after) and not (is_word(before or " ") or is_word(after or " ")):
            found.append(match[0])
    return found
