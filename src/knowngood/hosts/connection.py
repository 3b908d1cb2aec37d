"""A connection to an agent through any command that carries bytes: ``ssh``, ``docker exec -i``, ``kubectl exec -i``."""

import itertools
import secrets
import shlex
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO, Any

from knowngood.errors import KnowngoodError, Unreachable
from knowngood.hosts.agent.frames import MAGIC, Cut, pack, unpack
from knowngood.hosts.ask import error_of
from knowngood.hosts.bundle import scripts
from knowngood.reason.boot import TOO_OLD, boot_words

# Reads the agent's text from standard input and becomes it; no quotes, so that it survives any number of shells.
BOOT = (
    f"import sys,zlib;sys.version_info<(3,8)and sys.exit({TOO_OLD});"
    "i=sys.stdin.buffer;s=zlib.decompress(i.read(int(i.readline())));exec(s)"
)
PYTHONS = ("python3", "/usr/bin/python3", *(f"python3.{minor}" for minor in range(14, 7, -1)), "python")
NO_PYTHON = "knowngood: no Python 3.8 or newer"
NOISE_BYTES = 1 << 20
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
END_S = 0.5
SAID_BYTES = 2000


class Connection:
    """One agent process at the far end of a pipe, started when it is needed, and again when it is lost.

    Args:
        name: The host, for messages.
        command: Makes the command to start; it gets the shell words that are to be run at the far end.
        state: State directory on the host; empty for the usual one.
        python: Interpreter on the host; empty looks for one.
        sudo: Whether the agent runs as root, by ``sudo -n``.
        patience_s: How long a lost connection is tried again, in seconds.
        on_connect: Called after every start of the agent.

    Attributes:
        command: As above.
        process: The command that runs now; None if none does.
        lost: How often a connection that had stood was lost.
        hello: What the agent said of itself: ``boot``, ``pid``, ``python``.
    """

    def __init__(
        self,
        name: str,
        command: Callable[[Sequence[str]], Sequence[str]],
        *,
        state: str = "",
        python: str = "",
        sudo: bool = False,
        patience_s: float = 60.0,
        on_connect: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self.command = command
        self._state = state
        self._python = python
        self._sudo = sudo
        self._patience_s = patience_s
        self._on_connect = on_connect
        self._session = secrets.token_hex(16)
        self._numbers = itertools.count(1)
        self._alone = threading.RLock()
        self.process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as we do
        self.lost = 0
        self.hello: dict[str, Any] = {}

    def ask(self, verb: str, /, **arguments: Any) -> Any:
        """Ask the agent; if the connection is lost meanwhile, make a new one and repeat the request by its id.

        Raises:
            Unreachable: There is no connection, and none can be made.
            KnowngoodError: What the agent says.
        """
        with self._alone:
            request = {
                "session": self._session, "number": next(self._numbers), "verb": verb, "arguments": arguments,
            }  # fmt: skip
            answer = self._exchange(pack(request))
        if answer["ok"]:
            return answer["value"]
        raise error_of(answer["kind"], answer["message"], answer["hint"], answer["facts"])

    def _exchange(self, frame: bytes) -> dict[str, Any]:
        until, pause_s = time.monotonic() + self._patience_s, FIRST_PAUSE_S
        while True:
            try:
                # Whoever was never reached is most likely misspelt: that is said at once.
                process = self.process or self._connect(again=bool(self.hello))
                return self._talk(process, frame)
            except (Cut, OSError) as error:
                self._drop()
                self.lost += 1
                if time.monotonic() > until:
                    raise self._unreachable("the connection was lost") from error
            except Unreachable:
                if not self.hello or time.monotonic() > until:
                    raise
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _talk(self, process: "subprocess.Popen[bytes]", frame: bytes) -> dict[str, Any]:
        stdin, stdout = ends(process)
        stdin.write(frame)
        stdin.flush()
        answer: dict[str, Any] = unpack(stdout)
        return answer

    def _connect(self, *, again: bool) -> "subprocess.Popen[bytes]":
        """Start the agent.

        Raises:
            Unreachable: It cannot be started; what the command said is in the message.
        """
        self._said.seek(0)
        self._said.truncate()
        command = self.command(far_words(self._python, sudo=self._sudo))
        process = subprocess.Popen(
            # Control-C is for us: the agent is still needed to bring everything back.
            ["sh", "-c", "trap '' INT; exec \"$@\"", "sh", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        self.process = process
        found = scripts()
        text = zlib.compress(found["recover.py"], 9)
        hello = {"state": self._state, "scripts": {"recover.sh": found["recover.sh"]}}
        try:
            stdin, stdout = ends(process)
            stdin.write(b"%d\n%s%s" % (len(text), text, pack(hello)))
            stdin.flush()
            skip_noise(stdout)
            self.hello = unpack(stdout)
            self._on_connect()
        except (Cut, OSError) as error:
            self._drop()
            how = "the connection was lost and cannot be made again" if again else "there is no connection"
            raise self._unreachable(how) from error
        return process

    def _unreachable(self, how: str) -> Unreachable:
        self._said.seek(0)
        said = self._said.read()[-SAID_BYTES:].decode(errors="replace").strip()
        if NO_PYTHON in said:
            hint = "Install one there, or name its path: [host] python."
        elif "assword" in said and self._sudo:
            hint = "[host] sudo needs a rule without a password (NOPASSWD) for the interpreter."
        else:
            hint = f"Try it by hand: {shlex.join(self.command(['true']))}"
        return Unreachable(f"{self._name}: {how}" + (f": {last_line(said)}" if said else ""), hint=hint, said=said)

    def _drop(self) -> None:
        """Forget a connection that is of no use any more."""
        process, self.process = self.process, None
        if process is None:
            return
        with suppress(OSError):
            if process.stdin:
                process.stdin.close()
        if process.stdout:
            process.stdout.close()
        process.kill()
        process.wait()

    def close(self) -> None:
        """Let the agent go. It ends by itself when its input does, and the servers that it started."""
        with self._alone:
            process, self.process = self.process, None
            if process is None:
                return
            with suppress(OSError):
                if process.stdin:
                    process.stdin.close()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout:
                process.stdout.close()

    def __del__(self) -> None:
        """Close what was forgotten."""
        with suppress(KnowngoodError, AttributeError):
            self.close()
            self._said.close()


def ends(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    """Our ends of the pipes to a process.

    Raises:
        Cut: They were never made.
    """
    if process.stdin is None or process.stdout is None:
        raise Cut
    return process.stdin, process.stdout


def far_words(python: str, *, sudo: bool) -> list[str]:
    """What is run at the far end: a shell that looks for an interpreter and becomes the agent."""
    names = (python,) if python else PYTHONS
    before = "sudo -n" if sudo else ""
    return boot_words(names, BOOT, arguments="serve", before=before, missing=NO_PYTHON)


def skip_noise(stream: IO[bytes]) -> None:
    """Read past whatever start-up files print, up to the agent's magic line.

    Raises:
        Cut: It does not come.
    """
    left = NOISE_BYTES
    while left > 0:
        line = stream.readline(left)
        if line == MAGIC:
            return
        if not line:
            break
        left -= len(line)
    raise Cut


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
