"""The journal of settings of a host, as the port wants it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from knowngood.hosts.ask import Ask
from knowngood.model.change import Setting
from knowngood.ports import Tuning


class AgentSettings:
    """Undo of settings, carried out by the agent on the host.

    Args:
        ask: How the agent is asked.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def read(self, settings: Sequence[Setting]) -> Mapping[str, str]:
        """Read what settings are now: name to value.

        Raises:
            Refused: One cannot be read, or could not be written.
        """
        found: dict[str, str] = self._ask("read_settings", knobs=[knob(one) for one in settings])
        return found

    def apply(self, tx: str, settings: Sequence[Setting]) -> Tuning:
        """Set a set of values, all or none; asked again with the same id, answer with its state.

        Raises:
            Refused: One cannot be written, put back or read back; everything is as before.
            RevertFailed: That failed, and not everything could be put back.
        """
        return tuning(self._ask("apply_settings", tx=tx, knobs=[knob(one) for one in settings]))

    def revert(self, tx: str) -> Tuning:
        """Put the values of a set back where they still read what was set.

        Raises:
            Refused: There is no such set, or a later one stands on it; nothing was changed.
            RevertFailed: Somebody else has set one since; it was left alone.
        """
        return tuning(self._ask("revert_settings", tx=tx))

    def keep(self, tx: str) -> Tuning:
        """Make an applied set part of the known-good state.

        Raises:
            Refused: It is not applied.
        """
        return tuning(self._ask("keep_settings", tx=tx))

    def recover(self, *, keep: Sequence[str] = ()) -> Sequence[Tuning]:
        """Undo what is neither kept nor reverted, newest first; set again what was kept and undone by a reboot."""
        return [tuning(status) for status in self._ask("recover_settings", keep=list(keep))]

    def transactions(self) -> Sequence[Tuning]:
        """All sets that are not reverted, oldest first."""
        return [tuning(status) for status in self._ask("settings")]


def knob(setting: Setting) -> list[Any]:
    """A setting in plain values, in the agent's order."""
    return [setting.name, setting.path, list(setting.read), list(setting.write), setting.value]


def tuning(status: dict[str, Any]) -> Tuning:
    """A set of settings out of the agent's answer."""
    values = {name: value or "" for name, value in status["files"].items()}
    return msgspec.convert({**status, "values": values}, Tuning)
