"""The few requests the engine itself makes: health, first answer, pages kept as evidence."""

import http.client
import json
from urllib.parse import urlsplit


def fetch(url: str, *, body: object = None, timeout_s: float = 2.0) -> tuple[int, str]:
    """Ask a server once, without following redirects or proxies.

    Args:
        url: What to ask for.
        body: Sent as JSON by POST; None is a GET.
        timeout_s: Longest wait for each step of the answer.

    Returns:
        HTTP status and body; status 0 if nobody answered.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        if body is None:
            connection.request("GET", parts.path or "/")
        else:
            connection.request("POST", parts.path, json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read().decode(errors="replace")
    except (OSError, http.client.HTTPException):
        return 0, ""
    finally:
        connection.close()
