"""The machine that knowngood itself runs on."""

import os
import signal
import stat
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from knowngood.errors import Died, HostError, Unreachable
from knowngood.hosts import lease, proc
from knowngood.hosts.family import MARKER, Family
from knowngood.hosts.journal import ENV_STATE, LocalJournal, state_directory
from knowngood.hosts.process import LocalProcess
from knowngood.hosts.runs import Launch, Runs, has_other_controller
from knowngood.hosts.settings import LocalSettings
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Completed

RUN = "KNOWNGOOD_RUN"


class LocalHost:
    """This machine.

    Args:
        state: State directory of journal and runs, the lease's too if it is given here or by ``KNOWNGOOD_STATE``; else
            the user's own, with a lease for the whole machine.
    """

    def __init__(self, state: Path | None = None) -> None:
        own = state is not None or ENV_STATE in os.environ
        self._state = (state or state_directory()).absolute()
        self._lease = self._state / lease.NAME if own else lease.shared_path()
        self._runs = Runs(self._state / "runs")
        self._journal = LocalJournal(self._state)
        self._settings = LocalSettings(self._state)
        self._ours: set[str] = set()

    @property
    def address(self) -> str:
        """``local``."""
        return "local"

    @property
    def journal(self) -> LocalJournal:
        """The machine's journal of file edits."""
        return self._journal

    @property
    def settings(self) -> LocalSettings:
        """The machine's journal of settings."""
        return self._settings

    def run(self, argv: Sequence[str], *, timeout_s: float, env: Mapping[str, str] | None = None) -> Completed:
        """Run a program to its end, with an empty input; ``env`` is added to the environment.

        Raises:
            Unreachable: There is no such program, or it did not end in time.
        """
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        except OSError as error:
            raise Unreachable(
                f"{argv[0]} cannot be run: {error.strerror}", hint="Is it installed, and on the PATH?"
            ) from error
        with child:
            try:
                out, err = child.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                raise Unreachable(
                    f"{argv[0]} did not end within {timeout_s:g} s", hint="Run it by hand to see what it waits for."
                ) from error
            finally:
                # Its group, because a grandchild that holds the pipes would keep us waiting.
                with suppress(ProcessLookupError, PermissionError):
                    if child.returncode is None:
                        os.killpg(child.pid, signal.SIGKILL)
        return Completed(status=child.wait(), out=out, err=err)

    def spawn(self, spec: LaunchSpec, *, run: str, log: Path) -> LocalProcess:
        """Start a server in a session of its own, its output appended to ``log``; ``run`` names it.

        Raises:
            Died: The program cannot be started.
            HostError: The log, or the record of the launch, cannot be written.
        """
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            launch = self._runs.begin(run, spec.argv)
            output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise unwritable(self._state, error) from error
        kept = {name: value for name, value in os.environ.items() if name not in spec.unset}
        env = {**kept, **spec.env, RUN: run, MARKER: launch.token}
        try:
            child = subprocess.Popen(
                list(spec.argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=spec.cwd or None,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._runs.forget(launch)
            raise died(spec, error) from error
        finally:
            os.close(output)
        found = proc.stat(child.pid)
        launch = msgspec.structs.replace(launch, leader=(child.pid, found.start if found else 0))
        self._ours.add(launch.token)
        process = self._process(launch, child)
        try:
            self._runs.write(launch)
        except OSError as error:
            process.stop(grace_s=0)
            raise unwritable(self._state, error) from error
        return process

    def _process(self, launch: Launch, child: "subprocess.Popen[bytes] | None") -> LocalProcess:
        return LocalProcess(launch, child, on_end=lambda: self._runs.forget(launch))

    def strays(self) -> Sequence[LocalProcess]:
        """Servers of ours that still run although nobody looks after them: neither this object nor another process."""
        found: list[LocalProcess] = []
        for launch in self._runs.all():
            if launch.token in self._ours or has_other_controller(launch):
                continue
            if launch.boot == proc.boot_id() and Family(launch.token, launch.leader).living():
                found.append(self._process(launch, None))
            else:
                self._runs.forget(launch)
        return found

    def look(self, path: str) -> bytes | None:
        """Bytes of a file, links followed; None if no file stands there.

        Raises:
            HostError: It cannot be read, or is no regular file.
        """
        try:
            # Looked at before it is opened: opening a device can do things, opening a pipe waits.
            if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a path with a zero byte is a ValueError here too
                raise HostError(f"{path} is not a regular file", hint="Name a file, no directory or device.")
            return Path(path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise HostError(f"{path} cannot be read: {why}", hint="Check its permissions.") from error

    def lease(self, *, purpose: str) -> AbstractContextManager[None]:
        """Hold the machine; one holder at a time, across users and labs; freed by the kernel when the holder dies.

        Raises:
            Busy: Somebody holds it; who, for what and since when are in the message.
        """
        return lease.hold(self._lease, purpose)


def unwritable(state: Path, error: OSError) -> HostError:
    """The error for a launch that cannot be written down."""
    return HostError(
        f"{error.filename or state} cannot be written: {error.strerror}",
        hint="The log and the state directory must be writable, with space left.",
    )


def died(spec: LaunchSpec, error: Exception) -> Died:
    """The error for a program that cannot be started."""
    program = spec.argv[0] if spec.argv else "nothing"
    if isinstance(error, FileNotFoundError) and spec.cwd and not Path(spec.cwd).is_dir():
        return Died(f"{program} cannot be started in {spec.cwd}: no such directory", hint="Correct [server] cwd.")
    if isinstance(error, FileNotFoundError):
        return Died(f"{program} cannot be started: no such program", hint="Give its full path, or extend PATH.")
    if isinstance(error, PermissionError):
        return Died(f"{program} cannot be started: permission denied", hint="Is it a program, and executable?")
    return Died(f"{program} cannot be started: {error}", hint="Run the command by hand to see why.")
