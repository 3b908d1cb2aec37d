"""Why a server did not start, died, or is not what was asked for."""

import msgspec


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Root cause read from a log.

    Attributes:
        cause: Id of the failure taxonomy, such as ``incompatible_features``; ``unknown`` if the reader abstains.
        line: The decisive line, as it stands in the log.
        line_number: Its number, from 1; 0 if there is none.
        component: Part that failed, such as ``llama.cpp``.
        hard: No setting, package or driver changes the outcome within ``scope``.
        scope: What the failure is bound to, in words.
        remedy: What to do.
        confidence: From 0 to 1.
        abstained: The reader found no cause it would stand for.
        member: Guilty member of the change set; empty if unknown.
        flags: Flags that the failure is about, in all spellings.
    """

    cause: str
    line: str = ""
    line_number: int = 0
    component: str = ""
    hard: bool = False
    scope: str = ""
    remedy: str = ""
    confidence: float = 0.0
    abstained: bool = False
    member: str = ""
    flags: tuple[str, ...] = ()


class LogRule(msgspec.Struct, frozen=True, kw_only=True):
    """One cause that an engine's log can show.

    Attributes:
        cause: Id of the failure taxonomy.
        pattern: Regular expression that the decisive line matches.
        component: Part that failed.
        hard: Whether nothing the user sets changes the outcome.
        scope: What the failure is bound to.
        remedy: What to do.
        example: A line that matches, from a real log.
        silent: The server comes up all the same: the line shows that a feature is not in force.
        flags: Flags that this failure is about; used to name the guilty member.
    """

    cause: str
    pattern: str
    component: str
    hard: bool = False
    scope: str = ""
    remedy: str
    example: str
    silent: bool = False
    flags: tuple[str, ...] = ()
