"""File edits, planned: what a journal puts on a host."""

import msgspec


class FileEdit(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a transaction: out of ``before`` becomes ``after``.

    Attributes:
        path: Absolute path on the host.
        before: SHA-256 of the bytes that must stand there; None if no file may stand there.
        after: New bytes; None to take the file away.
    """

    path: str
    before: str | None
    after: bytes | None
