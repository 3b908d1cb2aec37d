"""The agent at the far end of a connection: one frame in, one frame out, until the stream ends."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from .failures import Failure
from .frames import MAGIC, Cut, pack, pack_bytes, unpack, unpack_bytes
from .proc import boot_id
from .service import Service

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

# Asked again these would do something again, or answer something else; so their answers are kept.
ONCE = ("run", "spawn", "recover", "recover_settings", "revert_settings", "acquire", "release")
BEAT_S = 0.5
END_LOOK_S = 0.2
OLD_S = 86400.0


def serve(requests: IO[bytes], own_source: bytes) -> int:
    """Answer requests until the stream ends; then see the servers that were started here to their end.

    Args:
        requests: Standard input.
        own_source: This program, to be left on the host as ``recover.py``.
    """
    # Whatever else is written to standard output from here on would break the protocol.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        # On a line of its own, whatever a shell's start-up files have printed.
        send_out(answers, b"\n" + MAGIC)
        hello = unpack(requests)
        scripts = dict(hello["scripts"], **{"recover.py": own_source})
        service = Service(hello["state"], lambda: scripts)
        send_out(answers, pack({"boot": boot_id(), "pid": os.getpid(), "python": sys.version.split()[0]}))
    except (Cut, OSError):
        return 0
    desk = Desk(service)
    with suppress(Cut, OSError):
        while True:
            send_out(answers, pack(desk.answer(unpack(requests))))
    service.leave()
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, answers.fileno(), 2):
        os.dup2(null, fd)
    while service.write_ends():
        time.sleep(END_LOOK_S)
    return 0


def send_out(answers: IO[bytes], data: bytes) -> None:
    """Write bytes and let them go."""
    answers.write(data)
    answers.flush()


class Desk:
    """Takes requests one at a time, each at most once.

    Args:
        service: Who carries them out.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._folder = os.path.join(service.state, "requests")
        self._swept = False

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Carry a request out, or tell what came of it when it was asked before.

        Args:
            request: ``session`` and ``number``, which together are its id; ``verb`` and ``arguments``.

        Returns:
            ``ok`` with the ``value``; or the failure's ``kind``, ``message``, ``hint`` and ``facts``.
        """
        verb, arguments = request["verb"], request["arguments"]
        if verb not in ONCE:
            return self._carry_out(verb, arguments)
        try:
            with self._page(request["session"]) as page:
                known = page.read()
                if known and known["number"] == request["number"]:
                    return failed(unknown_end(verb)) if known["answer"] is None else dict(known["answer"])
                page.write({"number": request["number"], "answer": None})
                answer = self._carry_out(verb, arguments)
                page.write({"number": request["number"], "answer": answer})
                return answer
        except OSError as error:
            return failed(Failure("HostError", f"{self._folder} cannot be used: {error.strerror}", "Is the disk full?"))

    def _carry_out(self, verb: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        done = threading.Event()
        token = arguments.get("held", 0)
        beating = threading.Thread(target=self._beat, args=(done, token), daemon=True)
        if token:
            beating.start()
        try:
            return {"ok": True, "value": self._service.call(verb, arguments)}
        except Failure as error:
            return failed(error)
        except Exception as error:  # noqa: BLE001 - an answer is better than a connection that ends
            return failed(Failure("HostError", f"{verb} failed on the host: {error!r}", "This is a bug; report it."))
        finally:
            done.set()

    def _beat(self, done: threading.Event, token: int) -> None:
        """While a long request of the holder runs, the holder counts as alive."""
        while not done.wait(BEAT_S):
            if self._service.lease.book.read().get("token") == token:
                self._service.lease.book.beat()

    @contextmanager
    def _page(self, session: str) -> Generator[Sheet, None, None]:
        """The page of a session, alone: an agent whose connection was lost may still be at work on its last request."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        if not self._swept:
            self._swept = True
            self._sweep()
        fd = os.open(
            os.path.join(self._folder, os.path.basename(session)), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield Sheet(fd)
        finally:
            os.close(fd)

    def _sweep(self) -> None:
        """Forget sessions that are long over."""
        with suppress(OSError):
            for entry in os.scandir(self._folder):
                if time.time() - entry.stat().st_mtime > OLD_S:
                    os.unlink(entry.path)


class Sheet:
    """The last request of a session and its answer, in a file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self) -> dict[str, Any]:
        """What was written; empty for nothing."""
        size = os.fstat(self._fd).st_size
        try:
            return dict(json.loads(os.pread(self._fd, size, 0), object_hook=unpack_bytes))
        except ValueError:
            return {}

    def write(self, content: dict[str, Any]) -> None:
        """Replace what was written."""
        rest = json.dumps(content, default=pack_bytes).encode("ascii")
        os.ftruncate(self._fd, 0)
        at = 0
        while at < len(rest):
            at += os.pwrite(self._fd, rest[at:], at)


def unknown_end(verb: str) -> Failure:
    """The failure for a request that was begun by an agent that was killed."""
    return Failure(
        "Unreachable",
        f"the agent was killed while it carried out {verb!r}; what came of it is unknown",
        "Run `knowngood status`, then try again.",
    )


def failed(error: Failure) -> dict[str, Any]:
    """The answer for a request that failed."""
    return {"ok": False, "kind": error.kind, "message": error.message, "hint": error.hint, "facts": error.facts}
