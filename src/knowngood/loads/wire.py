"""A non-blocking client connection that knows when the kernel received its bytes. Standard library only.

A client that is scheduled late reads late. With ``SO_TIMESTAMPNS`` the kernel hands over, with the bytes, the time of
the last packet among them (TCP: Linux 4.13 and later, net/ipv4/tcp.c ``tcp_recv_timestamp``), taken when it arrived.
"""

import contextlib
import errno
import platform
import socket
import struct
import sys
import time
from typing import Final, NamedTuple

# include/uapi/asm-generic/socket.h; not in Python's socket module.
_SO_TIMESTAMPNS: Final = 35
_TIMESPEC = struct.Struct("@ll")
# Older than this is no delay but a clock that was set in between.
_CREDIBLE_NS: Final = 10_000_000_000
_HAS_STAMPS: Final = sys.platform == "linux" and platform.machine() in {"x86_64", "aarch64"}

_buffer = bytearray(1 << 18)
_view = memoryview(_buffer)


class Address(NamedTuple):
    """A resolved TCP address: family and what ``connect`` takes."""

    family: int
    where: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]


class Wire:
    """One connection, used for one exchange at a time."""

    __slots__ = ("_outgoing", "_socket", "fd")

    def __init__(self, address: Address) -> None:
        self._socket = socket.socket(address.family, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if _HAS_STAMPS:
            with contextlib.suppress(OSError):  # a kernel without it: the clock is read instead
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._outgoing = memoryview(b"")
        self.fd = self._socket.fileno()
        status = self._socket.connect_ex(address.where)
        if status not in {0, errno.EINPROGRESS}:
            self._socket.close()
            raise OSError(status, "cannot connect")

    def send(self, data: bytes) -> bool:
        """Begin to send; return whether all is out. If not, call ``resume`` when the socket is writable."""
        self._outgoing = memoryview(data)
        return self.resume()

    def resume(self) -> bool:
        """Send on; return whether all is out."""
        try:
            while self._outgoing:
                self._outgoing = self._outgoing[self._socket.send(self._outgoing) :]
        except BlockingIOError:
            return False
        except OSError as failed:
            # ENOTCONN only says that connecting goes on.
            if failed.errno == errno.ENOTCONN:
                return False
            raise
        return True

    def check(self) -> None:
        """Raise the socket's pending error, if any."""
        status = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if status:
            raise OSError(status, "connection failed")

    def receive(self) -> tuple[bytes, int]:
        """Read what is there.

        Returns:
            The bytes, empty if the peer closed; and when they arrived, in monotonic nanoseconds.

        Raises:
            BlockingIOError: Nothing is there.
            OSError: The connection is broken.
        """
        size, ancillary, _, _ = self._socket.recvmsg_into([_buffer], 64)
        wall = time.time_ns()
        at = time.monotonic_ns()
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
                seconds, ns = _TIMESPEC.unpack(data)
                age = wall - (seconds * 1_000_000_000 + ns)
                if 0 <= age < _CREDIBLE_NS:
                    at -= age
        return bytes(_view[:size]), at

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def kind_of(failed: OSError) -> str:
    """Name an operating system's error as a kind of failure."""
    return _KINDS.get(failed.errno or 0, "network")


_KINDS: Final = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EPIPE: "reset",
    errno.ETIMEDOUT: "timeout",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
}
# These say that the client, not the server, is at its end.
CLIENT_LIMITS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL, errno.ENOBUFS, errno.ENOMEM})
