"""The undo journal of a host, as the port wants it."""

from collections.abc import Sequence
from typing import Any

import msgspec

from knowngood.hosts.ask import Ask
from knowngood.model.files import FileEdit
from knowngood.ports import Transaction


class AgentJournal:
    """Exact undo of file edits, carried out by the agent on the host.

    Args:
        ask: How the agent is asked.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def apply(self, tx: str, edits: Sequence[FileEdit]) -> Transaction:
        """Put a set of edits on the host; asked again with the same id, answer with its state.

        Raises:
            Drift: A file is not what the plan was made for; everything is as before.
            Refused: The host cannot take the set; everything is as before.
            RevertFailed: It failed, and somebody else's edit is in the way of putting everything back.
        """
        return transaction(self._ask("apply", tx=tx, edits=[(e.path, e.before, e.after) for e in edits]))

    def revert(self, tx: str) -> Transaction:
        """Bring every file of a transaction, applied or kept, back to what it was.

        Raises:
            Refused: There is no such transaction, or a later one stands on it; nothing was changed.
            RevertFailed: A file was edited by somebody else since; it was left alone.
        """
        return transaction(self._ask("revert", tx=tx))

    def keep(self, tx: str) -> Transaction:
        """Make an applied transaction part of the known-good state; its pre-images stay for a later revert.

        Raises:
            Refused: It is not applied.
        """
        return transaction(self._ask("keep", tx=tx))

    def forget(self, tx: str) -> Transaction:
        """Let go of a kept transaction: what stands there stays, and no undo of it is left.

        Raises:
            Refused: It is not kept.
        """
        return transaction(self._ask("forget", tx=tx))

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Transaction]:
        """Undo whatever is neither kept nor reverted, newest first; those named in ``keep`` become kept instead."""
        return [transaction(status) for status in self._ask("recover", keep=list(keep))]

    def transactions(self) -> Sequence[Transaction]:
        """All transactions that are not reverted, oldest first."""
        return [transaction(status) for status in self._ask("transactions")]


def transaction(status: dict[str, Any]) -> Transaction:
    """A transaction out of the agent's answer."""
    return msgspec.convert(status, Transaction)
