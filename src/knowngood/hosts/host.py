"""The host port on top of an agent, wherever the agent runs."""

import getpass
import os
import socket
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from knowngood.errors import KnowngoodError
from knowngood.hosts.ask import Ask
from knowngood.hosts.journal import AgentJournal
from knowngood.hosts.settings import AgentSettings
from knowngood.model.evidence import CpuReading, Surroundings
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Completed, Inside

TTL_S = 120.0
SETTINGS = frozenset({"apply_settings", "revert_settings", "keep_settings", "recover_settings"})
CHANGING = SETTINGS | {"apply", "revert", "keep", "forget", "recover", "spawn"}
LEASE = frozenset({"renew", "release"})


class AgentHost:
    """A machine with an agent.

    Args:
        ask: How the agent is asked.
        ttl_s: Longest silence of this controller, in seconds, before the machine goes back to known-good by itself.
    """

    def __init__(self, ask: Ask, *, ttl_s: float = TTL_S) -> None:
        self._transport = ask
        self.ttl_s = ttl_s
        self._token = 0
        self._journal = AgentJournal(self._ask)
        self._settings = AgentSettings(self._ask)

    def _ask(self, verb: str, /, **arguments: Any) -> Any:
        """Ask the agent; what only the holder of the lease may do carries its token."""
        if self._token:
            # However long a request takes, whoever waits for it is alive.
            arguments["held"] = self._token
        if verb in LEASE or (verb in CHANGING and self._token):
            arguments["token"] = self._token
        return self._transport(verb, **arguments)

    @property
    def journal(self) -> AgentJournal:
        """The machine's journal of file edits."""
        return self._journal

    @property
    def settings(self) -> AgentSettings:
        """The machine's journal of settings."""
        return self._settings

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Completed:
        """Run a program to its end, with an empty input; ``env`` is added to the environment.

        Raises:
            Unreachable: There is no such program, or it did not end in time.
        """
        return msgspec.convert(
            self._ask("run", argv=list(argv), timeout_s=timeout_s, env=dict(env or {})), Completed, strict=False
        )

    def spawn(self, spec: LaunchSpec, *, run: str, log: Path) -> "AgentProcess":
        """Start a server in a session of its own, its output appended to ``log``; ``run`` names it.

        Raises:
            Died: The program cannot be started.
            Quarantined: A transaction is unfinished.
            HostError: The log, or the record of the launch, cannot be written.
        """
        found = self._ask("spawn", spec=plain(spec), run=run, log=str(log.absolute()))
        return AgentProcess(self._ask, found["token"], found["pid"])

    def surroundings(self) -> Surroundings:
        """Look at what goes on on the machine; every process that uses an accelerator is a stranger."""
        return msgspec.convert(self._ask("surroundings", launch=""), Surroundings)

    def counts(self) -> Mapping[str, float]:
        """Read the machine's counters."""
        found: dict[str, float] = self._ask("counts")
        return found

    def strays(self) -> "Sequence[AgentProcess]":
        """Servers of ours that still run although nobody looks after them."""
        return [AgentProcess(self._ask, found["token"], found["pid"]) for found in self._ask("strays")]

    def look(self, path: str) -> bytes | None:
        """Bytes of a file, links followed; None if no file stands there.

        Raises:
            HostError: It cannot be read, or is no regular file.
        """
        found: bytes | None = self._ask("look", path=path)
        return found

    def holder(self) -> str:
        """Who holds the machine now, for what and since when; empty if nobody does."""
        return str(self._ask("holder"))

    @contextmanager
    def lease(self, *, purpose: str) -> Generator[None]:
        """Hold the machine; one holder at a time, across users and labs.

        When this controller vanishes, or is silent for longer than the lease's time to live, the machine ends the
        servers that were started under the lease and takes applied edits back, by itself; only then can somebody else
        have it.

        Raises:
            Busy: Somebody holds it; who, for what and since when are in the message.
        """
        self._token = self._ask("acquire", holder=self._holder(purpose), ttl_s=self.ttl_s, tied=self._is_tied)
        over = threading.Event()
        heart = threading.Thread(target=self._beat, args=(over,), name="knowngood-lease", daemon=True)
        heart.start()
        try:
            yield
        except BaseException:
            self._end_lease(over, heart)
            raise
        failure = self._end_lease(over, heart)
        if failure is not None:
            raise failure

    _is_tied = True

    def _end_lease(self, over: threading.Event, heart: threading.Thread) -> KnowngoodError | None:
        over.set()
        heart.join()
        try:
            self._ask("release")
        except KnowngoodError as error:
            return error
        finally:
            self._token = 0
        return None

    def _beat(self, over: threading.Event) -> None:
        while not over.wait(self.ttl_s / 4):
            # A lease that is lost is told by the next request that needs it.
            with suppress(KnowngoodError):
                self._ask("renew")

    def _holder(self, purpose: str) -> dict[str, Any]:
        return {
            "user": login() if self._is_tied else f"{login()}@{socket.gethostname()}",
            "pid": os.getpid(),
            "purpose": purpose,
            "since": datetime.now(UTC).isoformat("T", "seconds"),
            "lab": here(),
        }


class AgentProcess:
    """A launch and all its processes.

    Args:
        ask: How the agent of its host is asked.
        token: The launch's marker.
        pid: Process id of the leader on the host.
    """

    def __init__(self, ask: Ask, token: str, pid: int) -> None:
        self._ask = ask
        self._token = token
        self._pid = pid

    @property
    def pid(self) -> int:
        """Process id of the leader; of a stray whose leader was not recorded, of its oldest process; 0 for none."""
        return self._pid

    def poll(self) -> int | None:
        """Exit status of the leader (negative: signal), or None while it lives; 255 if nobody saw it."""
        found: int | None = self._ask("poll", launch=self._token)
        return found

    def stop(self, *, grace_s: float) -> None:
        """End every process of the launch: ask, wait up to ``grace_s`` seconds, kill; return when all are gone.

        Raises:
            RevertFailed: A process could not be ended.
        """
        self._ask("stop", launch=self._token, grace_s=grace_s)

    def cpu(self) -> CpuReading:
        """Read the machine's CPU counters, and those of the launch, children that were waited for included."""
        return msgspec.convert(self._ask("cpu", launch=self._token), CpuReading)

    def inspect(self) -> Inside:
        """Look into the live processes."""
        return msgspec.convert(self._ask("inspect", launch=self._token), Inside)

    def surroundings(self) -> Surroundings:
        """Look at what goes on around the launch."""
        return msgspec.convert(self._ask("surroundings", launch=self._token), Surroundings)


def plain(spec: LaunchSpec) -> dict[str, Any]:
    """A launch in plain values."""
    return {"argv": list(spec.argv), "env": dict(spec.env), "unset": list(spec.unset), "cwd": spec.cwd}


def login() -> str:
    """Login name, or the user's number where there is none (containers)."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def here() -> str:
    """Working directory; empty if it was removed."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""
