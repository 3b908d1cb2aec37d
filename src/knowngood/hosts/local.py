"""The machine that knowngood itself runs on."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from knowngood.hosts.agent.failures import Failure
from knowngood.hosts.agent.service import Service
from knowngood.hosts.ask import error_of
from knowngood.hosts.bundle import scripts
from knowngood.hosts.host import TTL_S, AgentHost
from knowngood.model.launch import LaunchSpec
from knowngood.ports import Route


class LocalHost(AgentHost):
    """This machine: its agent runs in this process.

    Args:
        state: State directory of journal and runs, the lease's too if it is given here or by ``KNOWNGOOD_STATE``; else
            the user's own, with a lease for the whole machine.
        ttl_s: Longest silence of this process, in seconds, before the machine goes back to known-good by itself. Its
            death is noticed at once.
    """

    def __init__(self, state: Path | None = None, *, ttl_s: float = TTL_S) -> None:
        self._service = Service(str(state.absolute()) if state else "", scripts)
        super().__init__(self._call, ttl_s=ttl_s)

    def _call(self, verb: str, /, **arguments: Any) -> Any:
        try:
            return self._service.call(verb, arguments)
        except Failure as failure:
            raise error_of(failure.kind, failure.message, failure.hint, failure.facts) from failure

    @property
    def address(self) -> str:
        """``local``."""
        return "local"

    @property
    def is_here(self) -> bool:
        """True: what this process computes, the machine computes."""
        return True

    def lead(self, words: Sequence[str]) -> Sequence[str]:
        """The words themselves."""
        return words

    @contextmanager
    def reach(self, spec: LaunchSpec) -> Generator[Route]:
        """Where a server is reached: where it listens."""
        yield Route(url=spec.url)
