"""The load of the ``command`` engine: a program that runs to its end and says its metrics itself."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from knowngood.config.values import read_file
from knowngood.errors import LoadError, UsageError
from knowngood.loads.metrics import NoMetrics, last_object
from knowngood.model.evidence import RunRecord
from knowngood.model.workload import Workload
from knowngood.ports import Target

_LOOK_S: Final = 0.05
_HINT: Final = 'print one line such as {"tok_s": 123.4} last, or name a metrics file'

Reader = Callable[[str], tuple[dict[str, float], str]]
"""Takes what a program said; gives its metrics and the part they were read from. May raise ``NoMetrics``."""


class Program:
    """Waits for the program and reads what it measured.

    Args:
        metrics_file: JSON file that the program writes; empty for its log.
        read: How its metrics are found there.
    """

    def __init__(self, metrics_file: str = "", *, read: Reader = last_object) -> None:
        self._metrics_file = metrics_file
        self._read = read

    def require(self, workloads: Sequence[Workload]) -> None:
        """Nothing to look for: the program is the server."""

    def measure(
        self,
        target: Target,
        workload: Workload,
        *,
        out: Path,
        progress: Callable[[float], None],
        mark: Callable[[], None],
        number: int = 0,
    ) -> RunRecord:
        """Wait until the program has ended, then read its metrics.

        Raises:
            LoadError: It took longer than the workload's ``timeout_s``, or left no metrics.
        """
        del number  # a program runs once
        began = time.monotonic()
        mark()
        while target.alive():
            if time.monotonic() - began > workload.timeout_s:
                raise LoadError(
                    f"the program did not end within {workload.timeout_s:g} s", hint="raise the workload's timeout_s"
                )
            time.sleep(_LOOK_S)
        mark()
        seconds = time.monotonic() - began
        metrics, text = self._find(target)
        out.write_text(text, encoding="utf-8")
        progress(1.0)
        return RunRecord(workload=workload.name, metrics=metrics, requests=1, seconds=seconds)

    def _find(self, target: Target) -> tuple[dict[str, float], str]:
        source = self._metrics_file or str(target.log)
        try:
            return self._read(read_file(Path(source), hint=_HINT).decode(errors="replace"))
        except UsageError as error:
            raise LoadError(f"cannot read the metrics: {error.message}", hint=_HINT) from error
        except NoMetrics as error:
            raise LoadError(f"{error} in {source}", hint=_HINT) from error
