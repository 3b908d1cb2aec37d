"""A machine that ``ssh NAME`` reaches, or a container that a command such as ``docker exec -i NAME`` reaches."""

import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from knowngood.errors import HostError, KnowngoodError, Unreachable
from knowngood.hosts.agent.proc import boot_id
from knowngood.hosts.ask import Ask
from knowngood.hosts.connection import Connection, last_line
from knowngood.hosts.host import TTL_S, AgentHost, AgentProcess, plain
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Route

KEEP_ALIVE = ("-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=3")
FORWARD_TRIES = 3
FORWARD_S = 60.0
ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - a server's own words
LEAST_PATIENCE_S = 20.0
FOLLOW_S = (0.1, 1.0)


class SshHost(AgentHost):
    """A machine reached by the user's own ``ssh``: all of its configuration, agents, jump hosts and prompts work.

    Args:
        name: What ``ssh`` is given; empty for this machine, which only makes sense with ``prefix``.
        prefix: Command that leads further in, such as ``("docker", "exec", "-i", "NAME")``.
        state: State directory on the host; empty for the usual one.
        python: Interpreter on the host that runs the agent (3.8 or newer); empty looks for one.
        sudo: Whether the agent runs as root there, by ``sudo -n``.
        ttl_s: Longest silence of this controller, in seconds, before the host goes back to known-good by itself.

    Attributes:
        connection: How its agent is asked.
    """

    _is_tied = False

    def __init__(
        self,
        name: str = "",
        *,
        prefix: Sequence[str] = (),
        state: str = "",
        python: str = "",
        sudo: bool = False,
        ttl_s: float = TTL_S,
    ) -> None:
        self._name = name
        self._prefix = tuple(prefix)
        self._ways = Ways(name)
        self.connection = Connection(
            self.address,
            self._command,
            state=state,
            python=python,
            sudo=sudo,
            patience_s=max(ttl_s, LEAST_PATIENCE_S),
            on_connect=self._ways.open_all,
        )
        super().__init__(self.connection.ask, ttl_s=ttl_s)

    def _command(self, words: Sequence[str]) -> Sequence[str]:
        return self._words(words, self._ways.master() if self._name else ())

    def _words(self, words: Sequence[str], options: Sequence[str]) -> Sequence[str]:
        inner = (*self._prefix, *words)
        if not self._name:
            return inner
        # One word for the login shell there, whichever that is.
        return ("ssh", "-T", *KEEP_ALIVE, *batch(), *options, self._name, "exec " + shlex.join(inner))

    def lead(self, words: Sequence[str]) -> Sequence[str]:
        """Command that runs a program there, through the connection that stands."""
        return self._words(words, self._ways.along() if self._name else ())

    @property
    def address(self) -> str:
        """``ssh://name``, or the command that leads there."""
        return " ".join(filter(None, (f"ssh://{self._name}" if self._name else "", shlex.join(self._prefix))))

    @property
    def is_here(self) -> bool:
        """Whether it is the same machine after all: a container on it, or the loopback."""
        self._connect()
        return bool(boot_id()) and self.connection.hello["boot"] == boot_id()

    def _connect(self) -> None:
        if not self.connection.hello:
            self._ask("holder")

    def spawn(self, spec: LaunchSpec, *, run: str, log: Path) -> "FollowedProcess":
        """Start a server in a session of its own; its output is kept on the host and follows into ``log`` here.

        Raises:
            Died: The program cannot be started.
            Quarantined: A transaction is unfinished.
            HostError: The log, or the record of the launch, cannot be written.
        """
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.touch()
        except OSError as error:
            raise HostError(f"{log} cannot be written: {error.strerror}", hint="Is the disk full?") from error
        found = self._ask("spawn", spec=plain(spec), run=run, log="")
        return FollowedProcess(self._ask, found["token"], found["pid"], log)

    @contextmanager
    def reach(self, spec: LaunchSpec) -> Generator[Route]:
        """Have a way to a server's port: forwarded by ``ssh``; of a container on this machine, the port as published.

        Raises:
            Unreachable: The port cannot be forwarded.
        """
        self._connect()
        if not self._name or not spec.port:
            yield Route(url=spec.url, breaks=lambda: self.connection.lost)
            return
        port = self._ways.open(spec.address, spec.port)
        try:
            yield Route(url=f"http://127.0.0.1:{port}", breaks=lambda: self.connection.lost)
        finally:
            self._ways.close(port)

    def close(self) -> None:
        """Let the connection go. What is on the host stays there: within a lease, until its time is over."""
        self.connection.close()
        self._ways.forget()


class Ways:
    """Ports of a host forwarded to this machine, through the connection that stands.

    The user's own control master carries them, where there is one; else our connection is one, of its own.

    Args:
        name: What ``ssh`` is given.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._own: bool | None = None
        self._folder = ""
        self._made = 0
        self._open: dict[int, str] = {}

    def master(self) -> tuple[str, ...]:
        """Options that make the next connection a control master, if the user's configuration has none."""
        if self._own is None:
            self._own = not has_master(self._name)
        if not self._own:
            return ()
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="knowngood-ssh-")
        # A socket that a dead connection has left would be in the way.
        self._made += 1
        return ("-o", "ControlMaster=yes", "-o", "ControlPersist=no", "-o", f"ControlPath={self._socket}")

    def along(self) -> tuple[str, ...]:
        """Options that make a further connection use the one that stands; where that is gone, it is one of its own."""
        return ("-S", self._socket) if self._own else ()

    @property
    def _socket(self) -> str:
        return f"{self._folder}/{self._made}"

    def _control(self, verb: str, port: int) -> "subprocess.CompletedProcess[str]":
        command = ["ssh", *self.along(), *batch(), "-O", verb, "-L", f"127.0.0.1:{port}:{self._open[port]}", self._name]
        try:
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=FORWARD_S
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, "", f"no answer within {FORWARD_S:g} s")

    def open(self, address: str, port: int) -> int:
        """Forward a port of the host; return its number here.

        Raises:
            Unreachable: It cannot be forwarded.
        """
        said = ""
        for _ in range(FORWARD_TRIES):
            here = free_port()
            there = ANY.get(address, address)
            self._open[here] = f"[{there}]:{port}" if ":" in there else f"{there}:{port}"
            done = self._control("forward", here)
            if done.returncode == 0:
                return here
            said = last_line(done.stderr)
            del self._open[here]
        raise Unreachable(
            f"port {port} of {self._name} cannot be forwarded: {said}", hint="Does its sshd allow AllowTcpForwarding?"
        )

    def open_all(self) -> None:
        """Forward all again, after the connection was lost; on the same numbers here."""
        for port in self._open:
            self._control("forward", port)

    def close(self, port: int) -> None:
        """Forward a port no more."""
        with suppress(OSError):
            self._control("cancel", port)
        del self._open[port]

    def forget(self) -> None:
        """Remove what is left on this machine."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""


class FollowedProcess(AgentProcess):
    """A launch on another machine, whose log follows here.

    Args:
        ask: How the agent of its host is asked.
        token: The launch's marker.
        pid: Process id of the leader on the host.
        log: File here that its output is appended to.
    """

    def __init__(self, ask: Ask, token: str, pid: int, log: Path) -> None:
        super().__init__(ask, token, pid)
        self._log = log
        self._offset = 0
        self._alone = threading.Lock()
        self._over = threading.Event()
        threading.Thread(target=self._follow, name="knowngood-log", daemon=True).start()

    def poll(self) -> int | None:
        """Exit status, or None while it lives; once it has ended, its whole log is here."""
        status = super().poll()
        if status is not None:
            self._pull()
        return status

    def stop(self, *, grace_s: float) -> None:
        """End every process of the launch; its whole log is here then."""
        super().stop(grace_s=grace_s)
        self._over.set()
        self._pull()

    def inspect(self) -> Any:
        """Look into the live processes; the log is here as far as it is written."""
        found = super().inspect()
        self._pull()
        return found

    def _follow(self) -> None:
        pause_s, longest_s = FOLLOW_S
        while not self._over.wait(pause_s):
            # A host that is gone for good is told by whoever needs it.
            with suppress(KnowngoodError):
                pause_s = FOLLOW_S[0] if self._pull() else min(2 * pause_s, longest_s)

    def _pull(self) -> bool:
        """Bring over what is new; tell whether anything was."""
        with self._alone:
            begun = self._offset
            while part := self._ask("log", launch=self._token, offset=self._offset):
                with self._log.open("ab") as file:
                    file.write(part)
                self._offset += len(part)
            return self._offset > begun


def batch() -> tuple[str, ...]:
    """Nobody is there to answer a prompt when nobody sits at a terminal."""
    return () if sys.stdin is not None and sys.stdin.isatty() else ("-o", "BatchMode=yes")


def has_master(name: str) -> bool:
    """Whether the user's configuration shares connections to a host already."""
    try:
        done = subprocess.run(
            ["ssh", "-G", name], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise Unreachable(f"ssh cannot be run: {error.strerror}", hint="Install OpenSSH's client.") from error
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        found[key] = value
    return found.get("controlmaster", "false") not in ("false", "no") and found.get("controlpath", "none") != "none"


def free_port() -> int:
    """A TCP port that nobody on this machine listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
