"""The few requests the engine itself makes: health, first answer, pages kept as evidence."""

import http.client
import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

LARGEST_PAGE = 16_000_000


class Clocked(socket.socket):
    """A connection that gives up at one point in time, however slowly or fast its bytes come.

    Attributes:
        until: That point on the monotonic clock, in seconds.
    """

    until = 0.0

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        """Receive bytes while there is time.

        Raises:
            TimeoutError: The time is up.
        """
        left = self.until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)
        return super().recv_into(*args, **kwargs)


def fetch(url: str, *, body: object = None, timeout_s: float = 2.0) -> tuple[int, str]:
    """Ask a server once, without following redirects or proxies.

    Args:
        url: What to ask for.
        body: Sent as JSON by POST; None is a GET.
        timeout_s: Longest wait for the whole answer.

    Returns:
        HTTP status and body; status 0 if nobody answered, not in time, or with more than ``LARGEST_PAGE`` bytes.
    """
    until = time.monotonic() + timeout_s
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.connect()
        clocked = Clocked(fileno=connection.sock.detach())
        clocked.until = until
        clocked.settimeout(timeout_s)
        connection.sock = clocked
        if body is None:
            connection.request("GET", parts.path or "/")
        else:
            connection.request("POST", parts.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        page = answer.read(LARGEST_PAGE + 1)
        return (answer.status, page.decode(errors="replace")) if len(page) <= LARGEST_PAGE else (0, "")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()
