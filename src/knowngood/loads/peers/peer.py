"""What a benchmark client of somebody else is: its program, its flags for a pass, its results in our words."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from knowngood.errors import LoadError, UsageError
from knowngood.model.workload import Workload

BUILT_IN = 'the built-in client can: [load] client = "knowngood"'
DEFAULT = Workload()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One pass, as a client is told of it.

    Attributes:
        url: Root URL of the server, without a final slash.
        model: Name to send with each request.
        tokenizer: Directory or name of a tokenizer; empty leaves that to the client.
        workload: What to ask of the server.
        seed: Of prompts and arrivals, another one for each pass of a launch.
        folder: Where the client may write; nothing else is in it.
    """

    url: str
    model: str
    tokenizer: str
    workload: Workload
    seed: int
    folder: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a client reported of a pass, in our words.

    Attributes:
        metrics: Name to value, as in ``docs/explanation/load.md``; what it does not tell is left out.
        requests: Requests that it measured, failed ones included.
        error_kinds: What failed, to how often.
    """

    metrics: dict[str, float]
    requests: int
    error_kinds: dict[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A benchmark client of somebody else.

    Attributes:
        name: Name in ``[load] client``.
        program: How it is started, unless ``[load] program`` says otherwise.
        install: How to get it.
        takes: What of a workload it can be told beside mean lengths and concurrency or rate; in the words of ``asked``.
        argv: Its arguments for a pass.
        read: What it reported. May raise ``LookupError``, ``TypeError``, ``ValueError`` or ``OSError`` if it left
            something else than expected.
        offline: Variables that keep it from asking a hub, for a tokenizer that is a directory here.
    """

    name: str
    program: tuple[str, ...]
    install: str
    takes: frozenset[str]
    argv: Callable[[Job], list[str]]
    read: Callable[[Job], Reading]
    offline: Mapping[str, str] = field(default_factory=dict[str, str])

    def env(self, tokenizer: str) -> Mapping[str, str]:
        """Variables that it needs with a tokenizer."""
        return self.offline if tokenizer and Path(tokenizer).is_dir() else {}

    def require(self, workload: Workload) -> None:
        """Refuse a workload that this client cannot be told exactly: what it left out would not be measured.

        Raises:
            UsageError: There is something of that kind in it.
        """
        where = f"workload {workload.name!r}"
        if workload.requests <= 0 and "duration_s" not in self.takes:
            hint = f"set requests, such as {32 * max(1, workload.concurrency)}"
            raise UsageError(f"{self.name} measures a number of requests, and {where} has none", hint=hint)
        cannot = [one for one in asked(workload) if one not in self.takes]
        if cannot:
            raise UsageError(
                f"{self.name} cannot be told {', '.join(cannot)} of {where}", hint=f"leave it out; {BUILT_IN}"
            )


def asked(workload: Workload) -> tuple[str, ...]:
    """What a workload asks for that not every client can do, by the names of its keys."""
    chat = workload.endpoint == "chat"
    found = {
        "endpoint = chat": chat,
        "prompts": bool(workload.prompts),
        "rate": workload.rate > 0,
        f"arrivals = {workload.arrivals}": workload.rate > 0,
        "warmup" if workload.requests else "warmup before duration_s": workload.warmup != DEFAULT.warmup,
        "timeout_s": workload.timeout_s != DEFAULT.timeout_s,
        "slo": workload.slo is not None,
        "extra": bool(workload.extra),
    }
    for name, lengths in (("isl", workload.isl), ("osl", workload.osl)):
        found[f"{name}.sd"] = lengths.sd > 0
        found[f"{name}.low"] = lengths.sd > 0 and lengths.low > 1
        found[f"{name}.high"] = lengths.sd > 0 and lengths.high > 0
    return tuple(name for name, is_asked in found.items() if is_asked)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object that a client has written; of JSON lines, the last."""
    text = path.read_text(encoding="utf-8").strip()
    try:
        value: object = json.loads(text)
    except ValueError:
        value = json.loads(text.rpartition("\n")[2])
    if not isinstance(value, dict):
        raise TypeError(f"{path.name} holds no object")
    return cast("dict[str, Any]", value)


def latency_names(latencies: Mapping[str, str], points: Mapping[str, str]) -> dict[str, str]:
    """Our names of latencies to a client's, which are ``POINT_LATENCY_ms``.

    Args:
        latencies: Our word to the client's.
        points: The same of what is told of each: quantiles, the mean.
    """
    return {
        f"{ours}_{point}_ms": f"{word}_{theirs}_ms"
        for ours, theirs in latencies.items()
        for point, word in points.items()
    }


def pick(row: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, float]:
    """Take numbers out of a flat result under our names; what the client left out, or could not compute, is left out.

    Args:
        row: Its result.
        names: Our name to its name.
    """
    return {ours: float(row[theirs]) for ours, theirs in names.items() if isinstance(row.get(theirs), int | float)}


def count_errors(texts: Sequence[str]) -> dict[str, int]:
    """Count failures by the last line of what the client says of each."""
    kinds: dict[str, int] = {}
    for text in texts:
        kind = text.strip().rpartition("\n")[2][:80]
        if kind:
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def unread(name: str, error: Exception) -> LoadError:
    """Error for a result that is not what this version of ours expects."""
    return LoadError(
        f"the result of {name} is not what was expected: {type(error).__name__}: {error}",
        hint="docs/how-to/own-benchmark.md names the versions that were tried",
    )
