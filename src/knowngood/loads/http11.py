"""An incremental reader of one HTTP/1.1 response; bytes may be cut anywhere. Standard library only.

Source: RFC 9112, sections 4 (status line), 5 (fields), 6 (body length), 7.1 (chunked).
"""

from enum import Enum, auto
from typing import Final

HEAD_LIMIT: Final = 65536
_HEX_DIGITS: Final = b"0123456789abcdefABCDEF"


class BadResponse(Exception):
    """The peer does not speak HTTP/1.1, or stopped in the middle."""


class _Part(Enum):
    HEAD = auto()
    LENGTH = auto()
    UNTIL_CLOSE = auto()
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    TRAILER = auto()
    COMPLETE = auto()


class Response:
    """One response as it comes in.

    Attributes:
        status: Status code; 0 until the head is complete.
        fields: Lower-case field name to value; of repeated fields the last.
        complete: The last byte of the body was seen.
    """

    __slots__ = ("_buffer", "_left", "_part", "fields", "status")

    def __init__(self) -> None:
        self.status = 0
        self.fields: dict[bytes, bytes] = {}
        self._part = _Part.HEAD
        self._buffer = b""
        self._left = 0

    @property
    def complete(self) -> bool:
        """Whether the last byte of the body was seen."""
        return self._part is _Part.COMPLETE

    @property
    def is_reusable(self) -> bool:
        """Whether the connection may carry another request: complete, nothing behind it, not announced as the last."""
        return self.complete and not self._buffer and b"close" not in self.fields.get(b"connection", b"").lower()

    def feed(self, data: bytes) -> bytes:
        """Take bytes in and return those that belong to the body, without its framing.

        Raises:
            BadResponse: The bytes are no HTTP/1.1 response.
        """
        data = self._buffer + data if self._buffer else data
        self._buffer = b""
        if self._part is _Part.HEAD:
            rest = self._read_head(data)
            if rest is None:
                return b""
            data = rest
        if self._part is _Part.UNTIL_CLOSE:
            return data
        if self._part is _Part.LENGTH:
            return self._read_counted(data)
        if self._part is _Part.COMPLETE:
            self._buffer = data
            return b""
        return self._read_chunks(data)

    def close(self) -> None:
        """Tell that the peer closed the connection.

        Raises:
            BadResponse: More bytes were due.
        """
        if self._part is _Part.UNTIL_CLOSE:
            self.fields[b"connection"] = b"close"
            self._part = _Part.COMPLETE
        elif self._part is not _Part.COMPLETE:
            raise BadResponse("the connection was closed before the response was complete")

    def _read_head(self, data: bytes) -> bytes | None:
        """Read heads up to the final one; return what follows it, None if more bytes are needed."""
        while True:
            end = data.find(b"\r\n\r\n")
            if end < 0:
                if len(data) > HEAD_LIMIT or (len(data) >= 5 and not data.startswith(b"HTTP/")):  # noqa: PLR2004
                    raise BadResponse("not an HTTP/1.1 response")
                self._buffer = data
                return None
            first, *lines = data[:end].split(b"\r\n")
            data = data[end + 4 :]
            version, _, rest = first.partition(b" ")
            code = rest[:3]
            if version not in {b"HTTP/1.1", b"HTTP/1.0"} or len(code) != 3 or not code.isdigit():  # noqa: PLR2004
                raise BadResponse(f"not an HTTP/1.1 status line: {first[:80]!r}")
            if not code.startswith(b"1"):  # 1xx are interim: the final response follows
                break
        self.status = int(code)
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise BadResponse(f"not a header field: {line[:80]!r}")
            self.fields[name.lower()] = value.strip()
        if version == b"HTTP/1.0":
            self.fields.setdefault(b"connection", b"close")
        self._expect_body()
        return data

    def _expect_body(self) -> None:
        if self.status in {204, 304}:
            self._part = _Part.COMPLETE
        elif b"chunked" in self.fields.get(b"transfer-encoding", b"").lower():
            self._part = _Part.CHUNK_SIZE
        elif b"content-length" in self.fields:
            length = self.fields[b"content-length"]
            if not length.isdigit():
                raise BadResponse(f"not a content-length: {length[:80]!r}")
            self._left = int(length)
            self._part = _Part.LENGTH if self._left else _Part.COMPLETE
        else:
            self._part = _Part.UNTIL_CLOSE

    def _read_counted(self, data: bytes) -> bytes:
        body = data[: self._left]
        self._left -= len(body)
        if not self._left:
            self._part = _Part.COMPLETE
            self._buffer = data[len(body) :]
        return body

    def _read_chunks(self, data: bytes) -> bytes:
        """Take the framing off; chunk data is handed on at once, framing that is cut waits for the rest."""
        body: list[bytes] = []
        at, size = 0, len(data)
        while self._part is not _Part.COMPLETE:
            if self._part is _Part.CHUNK_DATA:
                # The two bytes of the line end behind the data count as left, but are not body.
                piece = data[at : at + self._left]
                body.append(piece[: max(0, self._left - 2)])
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    break
                self._part = _Part.CHUNK_SIZE
            end = data.find(b"\r\n", at)
            if end < 0:
                if size - at > HEAD_LIMIT:
                    raise BadResponse("a chunk header without end")
                self._buffer = data[at:]
                break
            line = data[at:end]
            at = end + 2
            if self._part is _Part.TRAILER:
                if not line:
                    self._part = _Part.COMPLETE
                    self._buffer = data[at:]
            else:
                length = _chunk_size(line)
                self._part = _Part.CHUNK_DATA if length else _Part.TRAILER
                self._left = length + 2
        return b"".join(body)


def _chunk_size(line: bytes) -> int:
    digits = line.partition(b";")[0].strip()
    # int() alone would also take a sign, a prefix and underscores.
    if not digits or digits.translate(None, _HEX_DIGITS):
        raise BadResponse(f"not a chunk size: {line[:80]!r}")
    return int(digits, 16)
