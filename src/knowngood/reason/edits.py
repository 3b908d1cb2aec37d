"""File changes planned in memory: out of the bytes that stand there come the bytes that shall stand there."""

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import assert_never

import msgspec

from knowngood.errors import Refused
from knowngood.model.change import Edit, File, FileChange, Patch
from knowngood.model.files import FileEdit

HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
NO_FILE = b"/dev/null"
NO_NEWLINE = b"\\ No newline at end of file"


class Hunk(msgspec.Struct, frozen=True, kw_only=True):
    """One hunk: at line ``at`` (from 1), the lines ``old`` become ``new``, ends of line included.

    ``lines`` is the hunk as it stands in the diff, its head first.
    """

    at: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    lines: tuple[bytes, ...] = ()


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """What a unified diff does to one file; ``creates`` and ``deletes`` tell a /dev/null side.

    ``lines`` is what stands in the diff before the first hunk, behind the file before.
    """

    path: str
    hunks: tuple[Hunk, ...]
    creates: bool = False
    deletes: bool = False
    lines: tuple[bytes, ...] = ()


def touched(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """Paths that a set of changes touches, in order, each once.

    Raises:
        Refused: A diff is malformed.
    """
    paths: dict[str, None] = {}
    for change in changes:
        match change:
            case Edit() | File():
                paths[change.path] = None
            case Patch():
                for part in parse_diff(change.diff, name=change.name):
                    paths[join(change.root, part.path)] = None
            case _:
                assert_never(change)
    return tuple(paths)


def plan(changes: Sequence[FileChange], now: Mapping[str, bytes | None]) -> tuple[FileEdit, ...]:
    """Plan a set of changes as one transaction.

    Args:
        changes: In the order they build on each other.
        now: Every touched path to the bytes that stand there; None for no file.

    Returns:
        One edit a file that really changes.

    Raises:
        Refused: A text occurs another number of times than stated, or a diff does not apply exactly.
    """
    after: dict[str, bytes | None] = dict(now)
    for change in changes:
        match change:
            case Edit():
                after[change.path] = replace_text(change, after[change.path])
            case File():
                after[change.path] = change.content
            case Patch():
                for part in parse_diff(change.diff, name=change.name):
                    path = join(change.root, part.path)
                    after[path] = apply_patch(part, after[path], path=path, name=change.name)
            case _:
                assert_never(change)
    return tuple(
        FileEdit(path=path, before=digest(now[path]), after=content)
        for path, content in after.items()
        if content != now[path]
    )


def digest(content: bytes | None) -> str | None:
    """SHA-256 of a file's bytes; None for no file."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def join(root: str, path: str) -> str:
    """Path of a diff's file on the host."""
    return f"{root.rstrip('/')}/{path}"


def replace_text(edit: Edit, content: bytes | None) -> bytes:
    """Apply one find-and-replace, on bytes.

    Raises:
        Refused: The file is not there, or the text occurs another number of times.
    """
    if content is None:
        raise Refused(f"there is no file {edit.path} to edit", hint="a new file is a change of kind `file`")
    find = edit.find.encode()
    found = content.count(find)
    if found != edit.count:
        lines = [content[:at].count(b"\n") + 1 for at in occurrences(content, find)][:10]
        where = f" (lines {', '.join(map(str, lines))})" if lines else ""
        raise Refused(
            f"{edit.path}: the text to find occurs {found} times{where}, expected {edit.count}",
            hint="make `find` longer until it is unique, or state the right `count`",
            find=edit.find,
        )
    return content.replace(find, edit.replace.encode())


def occurrences(content: bytes, find: bytes) -> list[int]:
    """Offsets of a text, without overlaps."""
    at, found = content.find(find), list[int]()
    while at >= 0:
        found.append(at)
        at = content.find(find, at + len(find))
    return found


def parse_diff(diff: bytes, *, name: str) -> tuple[FilePatch, ...]:
    """Read a unified diff, as ``diff -u`` and ``git diff`` write it.

    Args:
        diff: Bytes of the diff.
        name: Its file name, for messages.

    Raises:
        Refused: It is no unified diff, or is cut off, binary or a rename.
    """
    lines = split_lines(diff)
    parts: list[FilePatch] = []
    at = begun = 0
    while at < len(lines):
        line = lines[at]
        if line.startswith((b"rename ", b"copy ", b"GIT binary patch", b"Binary files ")):
            raise Refused(
                f"{name} line {at + 1}: {text(line)!r} is not supported", hint="only changes of text files are"
            )
        if line.startswith(b"--- ") and at + 1 < len(lines) and lines[at + 1].startswith(b"+++ "):
            old, new = header_path(line), header_path(lines[at + 1])
            head = tuple(lines[begun : at + 2])
            hunks, at = parse_hunks(lines, at + 2, name=name)
            begun = at
            creates, deletes = old == NO_FILE, new == NO_FILE
            path = safe(strip_prefix(old if deletes else new), name=name)
            parts.append(FilePatch(path=path, hunks=hunks, creates=creates, deletes=deletes, lines=head))
        else:
            at += 1
    if not parts:
        raise Refused(f"{name} holds no unified diff", hint="make one with `diff -u` or `git diff`")
    return tuple(parts)


def parse_hunks(lines: Sequence[bytes], at: int, *, name: str) -> tuple[tuple[Hunk, ...], int]:
    """Read the hunks of one file; returns them and the index of the first line behind them."""
    hunks: list[Hunk] = []
    while at < len(lines) and (head := HUNK.match(lines[at])):
        old_start, old_count, new_count = int(head[1]), int(head[2] or 1), int(head[4] or 1)
        old: list[bytes] = []
        new: list[bytes] = []
        begun = at
        at += 1
        while len(old) < old_count or len(new) < new_count:
            if at >= len(lines):
                raise Refused(f"{name} ends inside a hunk", hint="the diff is cut off")
            sign, body = lines[at][:1], lines[at][1:]
            if sign not in (b" ", b"-", b"+") and lines[at] not in (b"\n", b"\r\n"):
                raise Refused(
                    f"{name} line {at + 1} is no line of a hunk: {text(lines[at])!r}", hint="the diff is damaged"
                )
            if lines[at] in (b"\n", b"\r\n"):  # an editor has stripped the blank of an empty context line
                sign, body = b" ", lines[at]
            at += 1
            if at < len(lines) and lines[at].startswith(NO_NEWLINE):
                body = body.removesuffix(b"\n")
                at += 1
            if sign != b"+":
                old.append(body)
            if sign != b"-":
                new.append(body)
        start = old_start + (old_count == 0)
        hunks.append(Hunk(at=start, old=tuple(old), new=tuple(new), lines=tuple(lines[begun:at])))
    if not hunks:
        raise Refused(f"{name}: a file header without a hunk", hint="the diff is damaged, or it is binary")
    return tuple(hunks), at


def split_lines(content: bytes) -> list[bytes]:
    """Lines with their line feeds; a lone carriage return ends none, as in ``diff``."""
    return re.findall(rb"[^\n]*\n|[^\n]+", content)


def header_path(line: bytes) -> bytes:
    """Path of a ``---`` or ``+++`` line: what stands behind the marker and before a tab."""
    return line[4:].split(b"\t")[0].rstrip(b"\r\n")


def strip_prefix(path: bytes) -> str:
    """Path without git's ``a/`` or ``b/``."""
    return (path[2:] if path[:2] in (b"a/", b"b/") else path).decode(errors="surrogateescape")


def safe(path: str, *, name: str) -> str:
    """Path that stays below its root.

    Raises:
        Refused: It does not.
    """
    if path.startswith("/") or ".." in path.split("/"):
        raise Refused(f"{name} names {path}, which may lie outside its root", hint="use paths relative to `root`")
    return path


def apply_patch(part: FilePatch, content: bytes | None, *, path: str, name: str) -> bytes | None:
    """Apply one file's hunks: every line where it is said to stand, or nothing.

    Raises:
        Refused: It does not apply exactly.
    """
    if part.creates and content is not None:
        raise Refused(f"{name} creates {path}, which stands already", hint="make the diff against the file that stands")
    if content is None and not part.creates:
        raise Refused(f"{name} changes {path}, which does not stand there", hint="check `root`")
    lines = split_lines(content or b"")
    out: list[bytes] = []
    done = 0
    for number, hunk in enumerate(part.hunks, 1):
        start = hunk.at - 1
        if start < done or tuple(lines[start : start + len(hunk.old)]) != hunk.old:
            raise Refused(
                f"{name} does not apply to {path}: hunk {number}, line {hunk.at}{elsewhere(lines, hunk)}",
                hint="no fuzz is allowed: make the diff anew against the file that stands",
            )
        out += lines[done:start]
        out += hunk.new
        done = start + len(hunk.old)
    result = b"".join(out + lines[done:])
    if part.deletes and result:
        raise Refused(f"{name} deletes {path}, but not all of its lines", hint="make the diff anew")
    return None if part.deletes else result


def elsewhere(lines: Sequence[bytes], hunk: Hunk) -> str:
    """Say where a hunk's old lines do stand, if that is one place."""
    size = len(hunk.old)
    places = [at + 1 for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.old]
    return f" (its lines stand at line {places[0]})" if len(places) == 1 else ""


def text(line: bytes) -> str:
    """A diff's line for a message."""
    return line[:60].decode(errors="replace").rstrip()
