"""What lies in a managed directory."""

import msgspec


class FileNote(msgspec.Struct, frozen=True, array_like=True):
    """One file of a listing.

    Attributes:
        size: In bytes.
        mtime_ns: Time of the last change of the bytes, in nanoseconds.
        sha256: Of its bytes; empty for a file that is too large to be captured, or was not read.
    """

    size: int
    mtime_ns: int
    sha256: str = ""


Listing = dict[str, FileNote]
"""Path relative to the directory, to what is known of the file."""
