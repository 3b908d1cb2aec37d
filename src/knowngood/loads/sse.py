"""An incremental reader of server-sent events; bytes may be cut anywhere. Standard library only.

Source: WHATWG HTML, section 9.2.6 (interpreting an event stream). Only the ``data`` field matters here.
"""


class EventStream:
    """Cuts a byte stream into the data of its events."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes in and return the data of every event that is now complete."""
        data = self._buffer + data if self._buffer else data
        held = b""
        if b"\r" in data:
            # A line end may be cut in two: what comes after a final CR decides what it is.
            if data.endswith(b"\r"):
                data, held = data[:-1], b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *blocks, rest = data.split(b"\n\n")
        self._buffer = rest + held
        # Nearly every event is one line, "data: ..."; the general reading is for all others.
        return [
            found
            for block in blocks
            if (found := block[6:] if block.startswith(b"data: ") and b"\n" not in block else _data_of(block))
            is not None
        ]


def _data_of(block: bytes) -> bytes | None:
    """Data of one event, its lines joined; None if it has none (a comment, a keep-alive)."""
    lines = [
        value.removeprefix(b" ")
        for name, _, value in (line.partition(b":") for line in block.split(b"\n"))
        if name == b"data"
    ]
    return b"\n".join(lines) if lines else None
