"""One file, whatever it is: found out by what stands in it, not by its name."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

from knowngood.errors import UsageError
from knowngood.model.profile import EngineStats, KernelTotals, NcclLog, NcclTest, Timeline, Topology
from knowngood.readers.chrome import GZIP_MAGIC, read_chrome
from knowngood.readers.engine_stats import read_stats
from knowngood.readers.nccl import read_log, read_tests
from knowngood.readers.nsight import read_csv, read_sqlite
from knowngood.readers.topology import read_topology

Reading = Timeline | KernelTotals | NcclLog | NcclTest | Topology | EngineStats
SQLITE_MAGIC = b"SQLite format 3\x00"
HEAD = 1 << 16
TRACE = re.compile(rb'\{\s*"|\[\s*\{')
"""A log's line may begin with a bracket, too."""
KNOWN = (
    "a torch or Chrome trace (also .gz), an Nsight .sqlite, CSV of nsys stats, a log with NCCL's INFO lines, output of "
    "nccl-tests, nvidia-smi topo -m, an engine's log or metrics page"
)


def read_any(path: Path, *, strict: bool = True) -> tuple[Reading, ...]:
    """Read a file; a server's log can hold both NCCL's lines and the engine's.

    Args:
        path: The file.
        strict: Refuse a text in which nothing is known; else it just says nothing.

    Raises:
        UsageError: It cannot be read, or is nothing that we know.
    """
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is no regular file", hint=f"name {KNOWN}")
        with path.open("rb") as file:
            raw = file.read(HEAD)
        head = (unzipped(path) if raw.startswith(GZIP_MAGIC) else raw).lstrip(b"\xef\xbb\xbf \t\r\n")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}", hint=f"name {KNOWN}") from error
    if raw.startswith(SQLITE_MAGIC):
        return (read_sqlite(path),)
    if TRACE.match(head):
        return (read_chrome(path),)
    if b"Duration (" in head or b"Total Time (" in head:
        return (read_csv(path),)
    found = read_text(path)
    if strict and not found:
        raise UsageError(f"{path} is nothing that we can read", hint=f"known are: {KNOWN}")
    return found


def read_text(path: Path) -> tuple[Reading, ...]:
    """Read a text by everything that knows texts."""
    name = path.name
    tests, topology = read_tests(name, lines(path)), read_topology(name, lines(path))
    log, stats = read_log(name, lines(path)), read_stats(name, lines(path))
    said = bool(log.version or log.transports or log.enqueued or log.env or log.ready or log.warnings)
    return tuple(one for one in (tests, topology, log if said else None, stats) if one is not None)


def lines(path: Path) -> Iterator[str]:
    """Lines of a text that may be compressed; bytes that are no UTF-8 are replaced."""
    with path.open("rb") as raw:
        packed = raw.read(2) == GZIP_MAGIC
    with gzip.open(path) if packed else path.open("rb") as file:
        for line in file:
            yield line.decode(errors="replace")


def unzipped(path: Path) -> bytes:
    """First bytes of what a compressed file holds."""
    with gzip.open(path) as file:
        try:
            return file.read1(HEAD)
        except EOFError:
            return b""
