"""First contact with a server, blocking: which address answers, which model it lists. Standard library only."""

import json
import socket
from typing import Any, Final

from knowngood.loads.http11 import BadResponse, Response
from knowngood.loads.plan import Plan
from knowngood.loads.wire import Address

_PATIENCE_S: Final = 10.0


class Failed(Exception):
    """The generator cannot do its work; the text says why."""


def connect_once(plan: Plan) -> Address:
    """Find the first address of the server's name that takes a connection.

    Raises:
        Failed: None does.
    """
    try:
        found = socket.getaddrinfo(plan.host, plan.port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Failed(f"cannot resolve {plan.host}: {error}") from error
    reason = ""
    for family, _, _, _, where in found:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as trial:
                trial.settimeout(_PATIENCE_S)
                trial.connect(where)
        except OSError as error:
            reason = str(error)
        else:
            return Address(family, where)
    raise Failed(f"cannot connect to {plan.authority}: {reason}")


def first_model(plan: Plan, address: Address) -> str:
    """Ask for the list of models and take the first; empty if the server has no such list.

    Raises:
        Failed: The server does not answer.
    """
    request = f"GET {plan.prefix}/v1/models HTTP/1.1\r\nHost: {plan.authority}\r\nConnection: close\r\n\r\n".encode()
    response, body = Response(), b""
    try:
        with socket.socket(address.family, socket.SOCK_STREAM) as connection:
            connection.settimeout(_PATIENCE_S)
            connection.connect(address.where)
            connection.sendall(request)
            while not response.complete:
                data = connection.recv(65536)
                if data:
                    body += response.feed(data)
                else:
                    response.close()
    except (OSError, BadResponse) as error:
        raise Failed(f"{plan.authority} does not answer GET /v1/models: {error}") from error
    try:
        listed: Any = json.loads(body)
        return str(listed["data"][0]["id"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
