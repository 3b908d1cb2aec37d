"""What a host can be asked: one method a verb, plain values in and out, the same in process and over a connection."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .accelerators import Accelerators
from .failures import Failure
from .family import MARKER, Family
from .files import Disk
from .journal import UNFINISHED, Journal, Status, describe_error
from .lease import Book, describe_holder, shared_lock
from .plan import Drift, Edit, Refused, Unfinished
from .proc import boot_id, own_name, process_stat, process_table
from .runs import NOBODY_NAME, Launch, Runs, has_other_controller
from .servers import UNKNOWN_STATUS, Server
from .settings import Knob, SettingsBook, check_knob
from .shelf import Shelf
from .surroundings import counts, look_around
from .watch import Lease, holder_now, unusable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

ENV_STATE = "KNOWNGOOD_STATE"
RUN = "KNOWNGOOD_RUN"
LOG_PART = 1 << 20
LOGS_KEPT = 100
SET_BY_HAND = "Set it by hand to one of the two values, then recover again."


def state_directory() -> str:
    """Where the journal, the runs and, for tests, the lease of this user live.

    ``KNOWNGOOD_STATE`` overrides it; else ``/var/lib/knowngood`` for root and ``$XDG_STATE_HOME/knowngood`` for others.
    """
    override = os.environ.get(ENV_STATE)
    if override:
        return os.path.abspath(override)
    if os.geteuid() == 0:
        return "/var/lib/knowngood"
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(home, "knowngood")


class Service:
    """The verbs of one host.

    Args:
        state: State directory of journal and runs, the lease's too if it is given here or by ``KNOWNGOOD_STATE``; else
            the user's own, with a lease for the whole machine.
        scripts: The recovery scripts, name to bytes, wherever they are needed.
    """

    def __init__(self, state: str, scripts: Callable[[], Mapping[str, bytes]]) -> None:
        own = bool(state) or ENV_STATE in os.environ
        self.state = os.path.abspath(state or state_directory())
        self._lock = os.path.join(self.state, "knowngood.lock") if own else shared_lock()
        self._scripts = scripts
        self._runs = Runs(os.path.join(self.state, "runs"))
        self._servers: dict[str, Server] = {}
        self._accelerators = Accelerators()
        self.lease = Lease(self.state, self._lock, self._install)
        self._book = Book(self.state)

    def call(self, verb: str, arguments: Mapping[str, Any]) -> Any:
        """Do what is asked.

        Args:
            verb: Its method's name, without ``do_``.
            arguments: Its method's arguments; ``held``, the token of the asker's lease, is nobody's.

        Raises:
            Failure: It cannot be done, or there is no such verb.
        """
        method = getattr(self, "do_" + verb, None)
        if method is None:
            raise Failure("HostError", f"the agent knows no {verb!r}", "Are both sides of one version?")
        return method(**{name: value for name, value in arguments.items() if name != "held"})

    def _install(self) -> None:
        with self._mapped(""):
            shelf = Shelf(self.state, Disk())
            with shelf.locked(10.0):
                shelf.prepare(self._scripts())

    # Files ------------------------------------------------------------------------------------------------------------

    def do_apply(self, tx: str, edits: Sequence[Sequence[Any]], token: int = 0) -> dict[str, Any]:
        """Put a set of edits on the host."""
        # Only a change needs the recovery scripts on the host; joining them costs a cheap command too much.
        with self._changing(tx, token):
            journal = Journal(self.state, scripts=self._scripts())
            return journal.apply(tx, [Edit(path, before, after) for path, before, after in edits])._asdict()

    def do_revert(self, tx: str, token: int = 0) -> dict[str, Any]:
        """Bring a transaction's files back; one that is back already stays so, whoever asks."""
        with self._mapped(tx):
            found = [status for status in [self._settled(tx)] if status is not None]
        if found:
            return found[0]._asdict()
        with self._changing(tx, token):
            return Journal(self.state).revert(tx)._asdict()

    def do_keep(self, tx: str, token: int = 0) -> dict[str, Any]:
        """Make a transaction part of the known-good state."""
        with self._changing(tx, token):
            return Journal(self.state).keep(tx)._asdict()

    def do_forget(self, tx: str, token: int = 0) -> dict[str, Any]:
        """Let go of a kept transaction; what stands there stays."""
        with self._changing(tx, token):
            return Journal(self.state).forget(tx)._asdict()

    def do_recover(self, keep: Sequence[str], token: int = 0) -> list[dict[str, Any]]:
        """Undo what is neither kept nor reverted."""
        with self._changing("", token):
            return [status._asdict() for status in Journal(self.state).recover(keep)]

    def do_transactions(self) -> list[dict[str, Any]]:
        """All transactions that are not reverted."""
        with self._mapped(""):
            return [status._asdict() for status in Journal(self.state).transactions()]

    def do_look(self, path: str) -> bytes | None:
        """Bytes of a file, links followed; None if no file stands there."""
        try:
            # Looked at before it is opened: opening a device can do things, opening a pipe waits.
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise Failure("HostError", f"{path} is not a regular file", "Name a file, no directory or device.")
            with open(path, "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Failure("HostError", f"{path} cannot be read: {why}", "Check its permissions.") from error

    def _settled(self, tx: str) -> Status | None:
        """A transaction that is undone already, or None."""
        record = Shelf(self.state, Disk()).find(tx)
        return Journal(self.state).revert(tx) if record is not None and record.state == "done" else None

    # Settings ---------------------------------------------------------------------------------------------------------

    def do_read_settings(self, knobs: Sequence[Sequence[Any]]) -> dict[str, str]:
        """What settings are now."""
        with self._mapped(""):
            return {knob.name: check_knob(knob) for knob in map(knob_of, knobs)}

    def do_apply_settings(self, tx: str, knobs: Sequence[Sequence[Any]], token: int = 0) -> dict[str, Any]:
        """Set a set of values, all or none."""
        with self._changing(tx, token, SET_BY_HAND):
            return SettingsBook(self.state, self._scripts()).apply(tx, [knob_of(one) for one in knobs])._asdict()

    def do_revert_settings(self, tx: str, token: int = 0) -> dict[str, Any]:
        """Put a set's values back."""
        with self._changing(tx, token, SET_BY_HAND):
            return SettingsBook(self.state).revert(tx)._asdict()

    def do_keep_settings(self, tx: str, token: int = 0) -> dict[str, Any]:
        """Make a set part of the known-good state."""
        with self._changing(tx, token, SET_BY_HAND):
            return SettingsBook(self.state).keep(tx)._asdict()

    def do_recover_settings(self, keep: Sequence[str], token: int = 0) -> list[dict[str, Any]]:
        """Undo what is neither kept nor reverted; set again what a reboot undid."""
        with self._changing("", token, SET_BY_HAND):
            return [status._asdict() for status in SettingsBook(self.state).recover(keep)]

    def do_settings(self) -> list[dict[str, Any]]:
        """All sets that are not reverted."""
        with self._mapped(""):
            return [status._asdict() for status in SettingsBook(self.state).transactions()]

    @contextmanager
    def _changing(self, tx: str, token: int, by_hand: str = "") -> Generator[None, None, None]:
        """The frame of a request that changes something: alone, and only for the holder."""
        with self._mapped(tx, by_hand), self._book.gate():
            self._book.check(token)
            yield
            if token:
                self._book.beat()

    @contextmanager
    def _mapped(self, tx: str, by_hand: str = "") -> Generator[None, None, None]:
        """Turn what the journals raise into failures; ``by_hand`` says what a person does about an unfinished one."""
        facts = {"tx": tx}
        try:
            yield
        except Drift as error:
            hint = "Look at what changed the file; make the change for what stands there now."
            raise Failure("Drift", str(error), hint, facts) from error
        except Refused as error:
            raise Failure(
                "Refused", str(error), "Nothing was changed. Remove the cause and try again.", facts
            ) from error
        except Unfinished as error:
            hint = by_hand or f"Put one of the two versions back by hand (pre-images: {self.state}/tx), then recover."
            raise Failure("RevertFailed", str(error), hint, facts) from error
        except OSError as error:
            raise Failure(
                "HostError",
                f"the undo journal in {self.state} cannot be used: {describe_error(error)}",
                "Check the permissions and the file system of that directory, then recover.",
            ) from error

    # Programs ---------------------------------------------------------------------------------------------------------

    def do_run(self, argv: Sequence[str], timeout_s: float, env: Mapping[str, str]) -> dict[str, Any]:
        """Run a program to its end, with an empty input."""
        try:
            child = subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=dict(os.environ, **env),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise Failure(
                "Unreachable", f"{argv[0]} cannot be run: {why}", "Is it installed, and on the PATH?"
            ) from error
        with child:
            try:
                out, err = child.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired as error:
                raise Failure(
                    "Unreachable",
                    f"{argv[0]} did not end within {timeout_s:g} s",
                    "Run it by hand to see what it waits for.",
                ) from error
            finally:
                # Its group, because a grandchild that holds the pipes would keep us waiting.
                with suppress(ProcessLookupError, PermissionError):
                    if child.returncode is None:
                        os.killpg(child.pid, signal.SIGKILL)
        return {"status": child.wait(), "out": out, "err": err}

    def do_spawn(self, spec: Mapping[str, Any], run: str, log: str, token: int = 0) -> dict[str, Any]:
        """Start a server in a session of its own, its output appended to ``log``; empty keeps it in the state."""
        with self._book.gate():
            self._book.check(token)
            self._check_gate()
            log = log or self._log_of(run)
            try:
                os.makedirs(os.path.dirname(log), exist_ok=True)
                launch = self._runs.begin(run, spec["argv"], token, log)
                output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError as error:
                raise unusable(self.state, error) from error
            server = self._start(spec, launch, output)
        return {"token": launch.token, "pid": server.pid}

    def _start(self, spec: Mapping[str, Any], launch: Launch, output: int) -> Server:
        kept = {name: value for name, value in os.environ.items() if name not in spec["unset"]}
        env = dict(kept, **spec["env"])
        env.update({RUN: launch.run, MARKER: launch.token})
        try:
            child = subprocess.Popen(
                list(spec["argv"]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=spec["cwd"] or None,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._runs.forget(launch)
            raise cannot_start(spec, error) from error
        finally:
            os.close(output)
        found = process_stat(child.pid)
        launch = launch._replace(leader=(child.pid, found.start if found else 0))
        server = self._keep_server(launch, child)
        try:
            self._runs.write(launch)
        except OSError as error:
            server.stop(0.0)
            raise unusable(self.state, error) from error
        return server

    def _check_gate(self) -> None:
        """Let no server start on files that are neither the known-good ones nor a whole change set."""
        with self._mapped(""):
            for status in Journal(self.state).transactions():
                if status.state == UNFINISHED:
                    raise Failure(
                        "Quarantined",
                        f"no server is started while transaction {status.id} is unfinished",
                        "Run `knowngood recover` first.",
                    )

    def _log_of(self, run: str) -> str:
        """A file for a log that stays on this host; the oldest ones go."""
        folder = os.path.join(self.state, "logs")
        with suppress(OSError):
            old = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(folder))
            for _, path in old[:-LOGS_KEPT]:
                os.unlink(path)
        return os.path.join(folder, f"{os.path.basename(run)}-{os.urandom(4).hex()}.log")

    def _keep_server(self, launch: Launch, child: subprocess.Popen[bytes] | None) -> Server:
        server = Server(launch, child, lambda: self._runs.forget(launch))
        self._servers[launch.token] = server
        return server

    def _server(self, launch: str) -> Server:
        """A server by its launch's token; one that another process of ours started is looked after from now on."""
        if launch not in self._servers:
            found = self._runs.find(launch)
            if found is None or found.boot != boot_id():
                return Server(Launch("", launch, [], "", NOBODY_NAME, NOBODY_NAME), None, lambda: None)
            found = found._replace(controller=own_name())
            with suppress(OSError):
                self._runs.write(found)
            return self._keep_server(found, None)
        return self._servers[launch]

    def do_strays(self) -> list[dict[str, Any]]:
        """Servers of ours that still run although nobody looks after them: neither this object nor another process."""
        found: list[dict[str, Any]] = []
        for launch in list(self._runs.all()):
            if launch.token in self._servers or has_other_controller(launch):
                continue
            if launch.boot == boot_id() and Family(launch.token, launch.leader).living():
                server = Server(launch, None, lambda: None)
                found.append({"token": launch.token, "pid": server.pid})
            else:
                self._runs.forget(launch)
        return found

    def do_poll(self, launch: str) -> int | None:
        """Exit status of a server's leader, or None while it lives."""
        status = self._server(launch).poll()
        if status == UNKNOWN_STATUS:
            # Whoever started it may have seen its end.
            found = self._runs.find(launch)
            return status if found is None or found.status is None else found.status
        return status

    def do_stop(self, launch: str, grace_s: float) -> None:
        """End a server with all its processes."""
        self._server(launch).stop(grace_s)

    def do_cpu(self, launch: str) -> dict[str, Any]:
        """Counters of the machine, and CPU time of a server."""
        return self._server(launch).cpu()

    def do_counts(self) -> dict[str, float]:
        """Counters of the machine."""
        return counts()

    def do_surroundings(self, launch: str) -> dict[str, Any]:
        """What goes on around a server, or on the machine if no launch is named."""
        if launch:
            return self._server(launch).surroundings(self._accelerators)
        return look_around(self._accelerators, (), process_table())

    def do_inspect(self, launch: str) -> dict[str, Any]:
        """What the operating system says of a server."""
        return self._server(launch).inspect()

    def do_log(self, launch: str, offset: int) -> bytes:
        """The next part of a server's log."""
        found = self._servers.get(launch)
        record = found.launch if found else self._runs.find(launch)
        if record is None or not record.log:
            return b""
        try:
            with open(record.log, "rb") as file:
                file.seek(offset)
                return file.read(LOG_PART)
        except OSError:
            return b""

    # The lease --------------------------------------------------------------------------------------------------------

    def do_acquire(self, holder: dict[str, Any], ttl_s: float, tied: bool) -> int:  # noqa: FBT001 - a value of a frame
        """Take the machine."""
        return self.lease.acquire(holder, ttl_s, tied=tied)

    def do_renew(self, token: int) -> None:
        """Say that the holder lives."""
        self.lease.renew(token)

    def do_release(self, token: int) -> None:
        """Give the machine back."""
        self.lease.release(token)

    def do_holder(self) -> str:
        """Who holds the machine now, in words; empty if nobody does."""
        note = holder_now(self._lock)
        return "" if note is None else describe_holder(note)

    def leave(self) -> None:
        """The connection is gone: leave the lease to its watcher and the servers to whoever comes next."""
        self.lease.let_go()
        for server in self.children():
            with suppress(OSError):
                self._runs.write(server.launch._replace(controller=NOBODY_NAME))

    def children(self) -> list[Server]:
        """Servers that this process started and that have a record still."""
        return [one for one in self._servers.values() if one.is_child and self._runs.find(one.launch.token)]

    def write_ends(self) -> bool:
        """Write down how servers ended, for whoever looks after them now; tell whether some still live."""
        left = False
        for server in self.children():
            status = server.exit_status()
            record = self._runs.find(server.launch.token)
            if status is None or server.lives():
                left = True
            if status is not None and record is not None and record.status is None:
                with suppress(OSError):
                    self._runs.write(record._replace(status=status))
                server.poll()
        return left


def knob_of(values: Sequence[Any]) -> Knob:
    """A setting out of plain values."""
    name, path, read, write, value = values
    return Knob(name, path, tuple(read), tuple(write), value)


def cannot_start(spec: Mapping[str, Any], error: Exception) -> Failure:
    """The failure for a program that cannot be started."""
    program = spec["argv"][0] if spec["argv"] else "nothing"
    if isinstance(error, FileNotFoundError) and spec["cwd"] and not os.path.isdir(spec["cwd"]):
        why, hint = f" in {spec['cwd']}: no such directory", "Correct [server] cwd."
    elif isinstance(error, FileNotFoundError):
        why, hint = ": no such program", "Give its full path, or extend PATH."
    elif isinstance(error, PermissionError):
        why, hint = ": permission denied", "Is it a program, and executable?"
    else:
        why, hint = f": {error}", "Run the command by hand to see why."
    return Failure("Died", f"{program} cannot be started{why}", hint)
