"""The journal of settings of the machine at hand, as the port wants it."""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast

from knowngood.errors import HostError, Refused, RevertFailed
from knowngood.hosts.agent import plan
from knowngood.hosts.agent.journal import Status, describe_error
from knowngood.hosts.agent.settings import Knob, SettingsBook, check_knob
from knowngood.hosts.bundle import scripts
from knowngood.model.change import Setting
from knowngood.ports import Tuning


class LocalSettings:
    """Undo of settings of this machine.

    Args:
        state: State directory; made by the first ``apply``.
    """

    def __init__(self, state: Path) -> None:
        self._state = state
        self._book = SettingsBook(str(state))

    def read(self, settings: Sequence[Setting]) -> Mapping[str, str]:
        """Read what settings are now: name to value.

        Raises:
            Refused: One cannot be read, or could not be written.
        """
        with self._mapped(""):
            return {setting.name: check_knob(knob(setting)) for setting in settings}

    def apply(self, tx: str, settings: Sequence[Setting]) -> Tuning:
        """Set a set of values, all or none; asked again with the same id, answer with its state.

        Raises:
            Refused: One cannot be written, put back or read back; everything is as before.
            RevertFailed: That failed, and not everything could be put back.
        """
        # Only a change needs the recovery scripts on the host; joining them costs a cheap command too much.
        book = SettingsBook(str(self._state), scripts=scripts())
        with self._mapped(tx):
            return tuning(book.apply(tx, [knob(setting) for setting in settings]))

    def revert(self, tx: str) -> Tuning:
        """Put the values of a set back where they still read what was set.

        Raises:
            Refused: There is no such set, or a later one stands on it; nothing was changed.
            RevertFailed: Somebody else has set one since; it was left alone.
        """
        with self._mapped(tx):
            return tuning(self._book.revert(tx))

    def keep(self, tx: str) -> Tuning:
        """Make an applied set part of the known-good state.

        Raises:
            Refused: It is not applied.
        """
        with self._mapped(tx):
            return tuning(self._book.keep(tx))

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Tuning]:
        """Undo what is neither kept nor reverted, newest first; set again what was kept and undone by a reboot."""
        with self._mapped(""):
            return [tuning(status) for status in self._book.recover(keep)]

    def transactions(self) -> Sequence[Tuning]:
        """All sets that are not reverted, oldest first."""
        with self._mapped(""):
            return [tuning(status) for status in self._book.transactions()]

    @contextmanager
    def _mapped(self, tx: str) -> Generator[None]:
        """Turn what the agent raises into the errors of this package."""
        try:
            yield
        except plan.Refused as error:
            raise Refused(str(error), hint="Nothing was changed. Remove the cause and try again.", tx=tx) from error
        except plan.Unfinished as error:
            raise RevertFailed(
                str(error), hint="Set it by hand to one of the two values, then recover again.", tx=tx
            ) from error
        except OSError as error:
            raise HostError(
                f"the journal of settings in {self._state} cannot be used: {describe_error(error)}",
                hint="Check the permissions and the file system of that directory, then recover.",
            ) from error


def knob(setting: Setting) -> Knob:
    """A setting as the agent knows it."""
    return Knob(setting.name, setting.path, setting.read, setting.write, setting.value)


def tuning(status: Status) -> Tuning:
    """A set of settings out of the agent's answer."""
    state = cast("Literal['applied', 'kept', 'lapsed', 'reverted', 'unfinished']", status.state)
    values = {name: value or "" for name, value in status.files.items()}
    return Tuning(id=status.id, state=state, values=values, notes=status.notes)
