"""The undo journal of the machine at hand, as the port wants it."""

import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

from knowngood.errors import Drift, HostError, Refused, RevertFailed
from knowngood.hosts.agent import journal as agent
from knowngood.hosts.agent import plan
from knowngood.hosts.bundle import scripts
from knowngood.model.files import FileEdit
from knowngood.ports import Transaction

ENV_STATE = "KNOWNGOOD_STATE"


def state_directory() -> Path:
    """Where the journal, the runs and, for tests, the lease of this user live.

    ``KNOWNGOOD_STATE`` overrides it; else ``/var/lib/knowngood`` for root and ``$XDG_STATE_HOME/knowngood`` for others.
    """
    if override := os.environ.get(ENV_STATE):
        return Path(override).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/knowngood")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "knowngood"


class LocalJournal:
    """Exact undo of file edits on this machine.

    Args:
        state: State directory; made by the first ``apply``.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._agent = agent.Journal(str(state))

    def apply(self, tx: str, edits: Sequence[FileEdit]) -> Transaction:
        """Put a set of edits on the host; asked again with the same id, answer with its state.

        Raises:
            Drift: A file is not what the plan was made for; everything is as before.
            Refused: The host cannot take the set; everything is as before.
            RevertFailed: It failed, and somebody else's edit is in the way of putting everything back.
        """
        # Only a change needs the recovery scripts on the host; joining them costs a cheap command too much.
        journal = agent.Journal(str(self._state), scripts=scripts())
        with self._mapped(tx):
            return transaction(journal.apply(tx, [plan.Edit(e.path, e.before, e.after) for e in edits]))

    def revert(self, tx: str) -> Transaction:
        """Bring every file of a transaction, applied or kept, back to what it was.

        Raises:
            Refused: There is no such transaction, or a later one stands on it; nothing was changed.
            RevertFailed: A file was edited by somebody else since; it was left alone.
        """
        with self._mapped(tx):
            return transaction(self._agent.revert(tx))

    def keep(self, tx: str) -> Transaction:
        """Make an applied transaction part of the known-good state; its pre-images stay for a later revert.

        Raises:
            Refused: It is not applied.
        """
        with self._mapped(tx):
            return transaction(self._agent.keep(tx))

    def forget(self, tx: str) -> Transaction:
        """Let go of a kept transaction: what stands there stays, and no undo of it is left.

        Raises:
            Refused: It is not kept.
        """
        with self._mapped(tx):
            return transaction(self._agent.forget(tx))

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Transaction]:
        """Undo whatever is neither kept nor reverted, newest first; those named in ``keep`` become kept instead."""
        with self._mapped(""):
            return [transaction(status) for status in self._agent.recover(keep)]

    def transactions(self) -> Sequence[Transaction]:
        """All transactions that are not reverted, oldest first."""
        with self._mapped(""):
            return [transaction(status) for status in self._agent.transactions()]

    @contextmanager
    def _mapped(self, tx: str) -> Generator[None]:
        """Turn what the agent raises into the errors of this package."""
        try:
            yield
        except plan.Drift as error:
            raise Drift(
                str(error), hint="Look at what changed the file; make the change for what stands there now.", tx=tx
            ) from error
        except plan.Refused as error:
            raise Refused(str(error), hint="Nothing was changed. Remove the cause and try again.", tx=tx) from error
        except plan.Unfinished as error:
            raise RevertFailed(
                str(error),
                hint=f"Put one of the two versions back by hand (pre-images: {self._state}/tx), then recover again.",
                tx=tx,
            ) from error
        except OSError as error:
            raise HostError(
                f"the undo journal in {self._state} cannot be used: {agent.describe_error(error)}",
                hint="Check the permissions and the file system of that directory, then recover.",
            ) from error


def transaction(status: agent.Status) -> Transaction:
    """A transaction out of the agent's answer."""
    state = cast("Literal['applied', 'kept', 'reverted', 'unfinished']", status.state)
    return Transaction(id=status.id, state=state, files=status.files, notes=status.notes)
