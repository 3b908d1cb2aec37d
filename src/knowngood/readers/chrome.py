"""Chrome traces, as torch's profiler writes them: streamed, so that half a gigabyte needs no memory to speak of.

The format is the Trace Event Format (Google, "Trace Event Format"): an array of events, or an object with one under
``traceEvents``. Kineto's categories are in pytorch/kineto ``output_json.cpp``.
"""

import codecs
import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol, cast

from knowngood.errors import UsageError
from knowngood.model.profile import Lane, Timeline
from knowngood.readers.kernels import categorise

CHUNK = 1 << 22
LONGEST_VALUE = 1 << 26
"""No event is longer; what does not end within that many characters is damaged, not unfinished."""
NEAR_END = 1 << 12
SPACE = re.compile(r"[\s,]*")
GPU = {"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"}
CPU = {"cpu_op", "operator"}
STEP = re.compile(r"ProfilerStep\s*#\s*\d+")
GZIP_MAGIC = b"\x1f\x8b"


class Stream(Protocol):
    """What events are read from."""

    def read1(self, size: int, /) -> bytes:
        """Read at most so many bytes, as they come."""
        ...


class Events:
    """Events of a trace, one after the other.

    Args:
        stream: Bytes of the trace; what is no UTF-8 is shown as such.

    Attributes:
        head: Values that stand beside the events, as far as they came before the end.
        cut: Where and why reading ended early; empty if it did not.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.decode = codecs.getincrementaldecoder("utf-8")(errors="replace").decode
        self.head: dict[str, Any] = {}
        self.cut: str = ""
        self.text = ""
        self.at = 0
        self.read_before = 0
        self.decoder = json.JSONDecoder(strict=False)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read the events.

        Yields:
            Each event that is an object.
        """
        first = self.peek()
        if first == "[":
            self.at += 1
            yield from self.elements()
        elif first == "{":
            self.at += 1
            yield from self.members()
        else:
            self.cut = "this is no trace: it begins with neither { nor ["

    def members(self) -> Iterator[dict[str, Any]]:
        """Members of the outermost object: events are streamed, other values kept if they are small."""
        while not self.cut and (first := self.peek()) != "}":
            if not first:
                self.cut = f"cut off after {self.position} characters"
                return
            key = self.value()
            if self.cut or self.peek() != ":":
                self.cut = self.cut or f"damaged after {self.position} characters"
                return
            self.at += 1
            if key == "traceEvents" and self.peek() == "[":
                self.at += 1
                yield from self.elements()
            else:
                value = self.value()
                if isinstance(key, str) and not isinstance(value, list):
                    self.head[key] = value

    def elements(self) -> Iterator[dict[str, Any]]:
        """Elements of an array, to its end; the array format may lack the final bracket."""
        while (first := self.peek()) != "]":
            if not first:
                self.cut = f"cut off after {self.position} characters"
                return
            value = self.value()
            if self.cut:
                return
            if isinstance(value, dict):
                yield cast("dict[str, Any]", value)
        self.at += 1

    @property
    def position(self) -> int:
        """Characters read."""
        return self.read_before + self.at

    def peek(self) -> str:
        """Next character that is no space or comma; empty at the end."""
        while True:
            found = SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text) or not self.more():
                return self.text[self.at : self.at + 1]

    def value(self) -> object:
        """Next value; None with ``cut`` set if there is none."""
        self.peek()
        while True:
            try:
                value, end = self.decoder.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                unfinished = error.pos >= len(self.text) - NEAR_END or error.msg.startswith("Unterminated string")
                room = len(self.text) - self.at < LONGEST_VALUE
                if not (unfinished and room and self.more()):
                    how = "cut off" if unfinished and room else "damaged"
                    self.cut = f"{how} after {self.position} characters: {error.msg}"
                    return None
            except RecursionError:
                self.cut = f"damaged after {self.position} characters: nested too deeply"
                return None
            else:
                # A number at the very end of the text may go on.
                if end == len(self.text) and self.more():
                    continue
                self.at = end
                return cast("object", value)

    def more(self) -> bool:
        """Read on; False at the end."""
        try:
            # One read at a time: at the end of a file that was cut off, what came before it is not lost.
            data = self.stream.read1(CHUNK)
        except (EOFError, OSError, zlib.error) as error:
            self.cut = f"cut off after {self.read_before + len(self.text)} characters: {error}"
            return False
        if not data:
            return False
        chunk = self.decode(data)
        self.read_before += self.at
        self.text, self.at = self.text[self.at :] + chunk, 0
        return True


class Builder:
    """Collects what matters of a trace."""

    def __init__(self, source: str) -> None:
        self.timeline = Timeline(source=source)
        self.names: dict[str, int] = {}
        self.lanes: dict[tuple[str, str, bool], Lane] = {}
        self.ranks: dict[str, int] = {}
        self.open: dict[tuple[object, object], list[tuple[str, str, float, dict[str, Any]]]] = {}
        self.gpu_marks: list[tuple[float, float]] = []
        self.graphs: list[tuple[float, int]] = []
        self.skipped = 0

    def take(self, event: dict[str, Any]) -> None:
        """Take one event in; what is no duration is passed over."""
        phase = event.get("ph")
        if phase == "X":
            start, duration = number(event.get("ts")), number(event.get("dur"))
            if start is None or duration is None or duration < 0:
                self.skipped += 1
                return
            self.span(event, str(event.get("name", "")), str(event.get("cat", "")).lower(), start, duration)
        elif phase == "B":
            start = number(event.get("ts"))
            if start is not None:
                begun = (str(event.get("name", "")), str(event.get("cat", "")).lower(), start, event)
                self.open.setdefault((event.get("pid"), event.get("tid")), []).append(begun)
        elif phase == "E":
            end = number(event.get("ts"))
            waiting = self.open.get((event.get("pid"), event.get("tid")))
            if waiting and end is not None:
                name, category, start, begun_event = waiting.pop()
                if end >= start:
                    self.span(begun_event, name, category, start, end - start)

    def span(self, event: dict[str, Any], name: str, category: str, start: float, duration: float) -> None:
        """Take a duration in, if it is a kernel, an operation, a step or a graph launch."""
        args = event.get("args")
        details: dict[str, Any] = cast("dict[str, Any]", args) if isinstance(args, dict) else {}
        if category in GPU:
            device = details.get("device", event.get("pid"))
            self.lane(event.get("pid"), f"device {device}", nested=False).add(
                start, duration, self.name(name), whole(details.get("correlation"))
            )
        elif category in CPU:
            self.lane(event.get("pid"), f"thread {event.get('tid')}", nested=True).add(start, duration, self.name(name))
        elif category in {"user_annotation", "gpu_user_annotation"} and STEP.match(name):
            marks = self.gpu_marks if category.startswith("gpu") else self.timeline.marks
            marks.append((start, start + duration))
        elif category == "user_annotation" and name.startswith("gloo:"):
            self.lane(event.get("pid"), f"thread {event.get('tid')}", nested=True).add(start, duration, self.name(name))
        elif category in {"cuda_runtime", "cuda_driver"} and "GraphLaunch" in name:
            self.graphs.append((start, whole(details.get("correlation"))))

    def lane(self, pid: object, name: str, *, nested: bool) -> Lane:
        """The lane of a device or thread."""
        key = (str(pid), name, nested)
        if key not in self.lanes:
            label = str(pid) if nested else f"{pid} {name}"
            rank = self.ranks.setdefault(label, len(self.ranks))
            self.lanes[key] = Lane(rank=rank, name=f"process {pid}, {name}", nested=nested)
        return self.lanes[key]

    def name(self, text: str) -> int:
        """Index of a name."""
        if text not in self.names:
            self.names[text] = len(self.timeline.names)
            self.timeline.names.append(text)
            self.timeline.categories.append(categorise(text))
        return self.names[text]

    def finish(self, events: Events) -> Timeline:
        """The timeline, with what a reader must know."""
        made = self.timeline
        made.lanes = list(self.lanes.values())
        made.graphs = [launch for _, launch in sorted(self.graphs) if launch]
        made.marks = self.gpu_marks or made.marks
        if events.cut:
            made.notes.append(f"{made.source}: {events.cut}; what comes after is not counted")
        unfinished = sum(map(len, self.open.values()))
        if unfinished:
            made.notes.append(f"{made.source}: {unfinished} events never end; they are not counted")
        if self.skipped:
            made.notes.append(f"{made.source}: {self.skipped} events have no proper time; they are not counted")
        return made


def read_chrome(path: Path) -> Timeline:
    """Read a trace, plain or compressed.

    Raises:
        UsageError: It cannot be read, or nothing of it is a trace.
    """
    builder = Builder(path.name)
    try:
        with path.open("rb") as raw:
            events = Events(unpacked(raw))
            for event in events:
                builder.take(event)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}", hint="name a trace, such as *.trace.json.gz") from error
    made = builder.finish(events)
    if not made.lanes:
        why = f": {events.cut}" if events.cut else ""
        hint = "profile with activities CPU and CUDA; an Nsight trace is read from its .sqlite"
        raise UsageError(f"{path} holds no kernel and no operation{why}", hint=hint)
    return made


def unpacked(raw: IO[bytes]) -> Stream:
    """Bytes of a file that may be compressed."""
    magic = raw.read(2)
    raw.seek(0)
    return cast("Stream", gzip.GzipFile(fileobj=raw) if magic == GZIP_MAGIC else raw)


def number(value: object) -> float | None:
    """A finite number, also one that is written as a text; None if it is none."""
    try:
        found = float(cast("float", value))
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def whole(value: object) -> int:
    """A positive whole number; 0 if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 64 else 0
