"""Unified diffs of bytes, as ``git apply`` and our own change of kind ``patch`` read them."""

import difflib

from knowngood.reason.edits import split_lines

NO_FILE = b"/dev/null"
MODE = b"100644"
LONGEST = 1_000_000
"""Bytes up to which a file is compared line by line."""


def is_text(*contents: bytes | None) -> bool:
    """Whether a diff can say it: no zero byte, as in git, and not too long to be compared line by line."""
    return all(content is None or (b"\0" not in content and len(content) <= LONGEST) for content in contents)


def file_diff(path: str, before: bytes | None, after: bytes | None) -> bytes:
    """One file's diff.

    Args:
        path: As it stands in the diff, without a leading slash.
        before: Old bytes; None for no file.
        after: New bytes; None for no file.

    Returns:
        The diff with git's header; empty if nothing differs.
    """
    name = path.encode(errors="surrogateescape")
    # A name with a blank ends with a tab, or the blank's rest would be taken for a time.
    tab = b"\t" if b" " in name else b""
    lines = list(
        difflib.diff_bytes(
            difflib.unified_diff,
            split_lines(before or b""),
            split_lines(after or b""),
            fromfile=NO_FILE if before is None else b"a/" + name + tab,
            tofile=NO_FILE if after is None else b"b/" + name + tab,
        )
    )
    if not lines:
        return b""
    head = b"diff --git a/" + name + b" b/" + name + b"\n"
    if before is None:
        head += b"new file mode " + MODE + b"\n"
    if after is None:
        head += b"deleted file mode " + MODE + b"\n"
    body = (line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n" for line in lines)
    return head + b"".join(body)
