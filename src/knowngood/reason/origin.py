"""Who wrote a log line, how loud, and what kind of line it is.

Launchers, engines and libraries each put something in front of a line: a time, a rank, a process, a level, a source
position. They are taken off one by one; what remains is what was said.
"""

import re
from dataclasses import dataclass
from typing import Literal

Level = Literal["quiet", "warning", "error", ""]
"""``quiet`` is information and below; empty means that the line names none."""

PREFIXES = re.compile(
    r"""
      \(\ ?(?P<process>[A-Za-z][^()]{0,40}?\b(?:pid|rank|ip)=[^()]{0,80})\)     # vLLM, Ray
    | \[\d{4}-\d\d-\d\d[ T][\d:.,]+(?P<ranks>(?:\ [A-Z]{2,4}\d+)*)\]            # SGLang, and any time in brackets
    | \[\d\d/\d\d/\d{4}-[\d:]+\]                                               # TensorRT-LLM
    | \[TRT-LLM\]
    | \[(?P<rank>(?:rank\ ?|RANK\ |Rank\ |Stage-|TP|DP|PP)\d+)\]:?
    | \[(?P<letter>[IWEF])\]
    | \[[\w./-]+\.(?:py|cc|cpp|cu|h):\d+\]:?
    | \[E\ (?P<c10>[\w.]+:\d+)\]                                               # c10's own
    | \d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S{0,12}
    | \d\d-\d\d\ \d\d:\d\d:\d\d(?:[.,]\d+)?
    | \d\.\d\d\.\d\d\d\.\d\d\d\ (?P<llama>[IWED])                              # llama.cpp
    | (?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL)\b:?
    | (?P<nccl>[\w.<>-]{1,80}:\d+:\d+\ \[\d+\])
    | [\w.-]{1,40}\ *\|\                                                        # docker compose
    | [\w.-]+\.py:\d+\]                                                        # vLLM without a bracket in front
    | \{"log":"
    """,
    re.VERBOSE,
)
MOST_PREFIXES = 8
FRAME = re.compile(r'\s*File "([^"]{1,400})", line (\d+)(?:, in (\S+))?')
EXCEPTION = re.compile(
    r"\s{0,8}(?:[A-Za-z_]\w{0,40}\.){0,6}(?:[A-Z]\w{0,60})?(?:Error|Exception|Exit|Interrupt)(?::\s|\s*$)"
)
ERROR = re.compile(
    r"(?i:\b(?:error|fatal|exception|failed|failure|abort(?:ed)?|killed|panic|traceback)\b)|\b[A-Z]\w{0,60}Error\b"
)
SOURCE = re.compile(r"\s{4,}\S|\s*(?:raise|assert)\b")
TRACEBACK = "Traceback (most recent call last)"
LETTERS: dict[str, Level] = {"D": "quiet", "I": "quiet", "W": "warning", "E": "error", "F": "error"}
NCCL_WARNING = "NCCL WARN"
"""NCCL's loudest level."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where a line comes from.

    Attributes:
        process: Tag of the process, such as ``Worker_TP1 pid=761``; empty if it has none.
        level: How loud it is.
        body: What is said.
    """

    process: str
    level: Level
    body: str

    @property
    def is_exception(self) -> bool:
        """Whether the line is the last of a traceback: a type and a message."""
        return EXCEPTION.match(self.body) is not None

    @property
    def is_telling(self) -> bool:
        """Whether the line looks like an error."""
        return ERROR.search(self.body) is not None

    @property
    def is_source(self) -> bool:
        """Whether the line looks like one of source code, as tracebacks quote it."""
        return SOURCE.match(self.body) is not None

    @property
    def frame(self) -> str | None:
        """File of a call, if the line is one of a traceback's calls."""
        found = FRAME.match(self.body)
        return found[1] if found else None


def read_origin(text: str) -> Origin:
    """Take apart what stands in front of a line."""
    at = 0
    tags: list[str] = []
    level: Level = ""
    for _ in range(MOST_PREFIXES):
        found = PREFIXES.match(text, at)
        if found is None:
            break
        groups = found.groupdict()
        for tag in ("process", "ranks", "rank", "nccl"):
            if groups[tag]:
                # Of processes in front of processes the inner one wrote the line.
                tags = [groups[tag].strip()] if tag in ("process", "nccl") else [*tags, groups[tag].strip()]
        letter = groups["letter"] or groups["llama"] or (groups["level"] or "")[:1].replace("C", "F")
        level = LETTERS.get(letter, level) if not groups["c10"] else "error"
        at = found.end()
        # One space belongs to the prefix; more are indentation, which tells calls from what is said.
        at += text.startswith(" ", at)
    body = text[at:]
    if NCCL_WARNING in text:
        level = "error"
    return Origin(process=" ".join(tags), level=level, body=body)
