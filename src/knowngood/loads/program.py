"""The load of the ``command`` engine: a program that runs to its end and says its metrics itself."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, cast

from knowngood.errors import LoadError
from knowngood.model.evidence import RunRecord
from knowngood.model.workload import Workload
from knowngood.ports import Target

_LOOK_S: Final = 0.05
_HINT: Final = 'print one line such as {"tok_s": 123.4} last, or name a metrics file'


class Program:
    """Waits for the program and reads what it measured.

    Args:
        metrics_file: JSON file that the program writes; empty for the last JSON object line of its log.
    """

    def __init__(self, metrics_file: str = "") -> None:
        self._metrics_file = metrics_file

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
        """Wait until the program has ended, then read its metrics; nested ones get dotted names.

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
        text, source = self._read(target)
        out.write_text(text, encoding="utf-8")
        metrics = dict(_flatten(json.loads(text), ""))
        if not metrics:
            raise LoadError(f"there is no number in the metrics of {source}", hint=_HINT)
        progress(1.0)
        return RunRecord(workload=workload.name, metrics=metrics, requests=1, seconds=seconds)

    def _read(self, target: Target) -> tuple[str, str]:
        """Find the JSON object with the metrics; return it and where it stood."""
        source = self._metrics_file or str(target.log)
        try:
            text = Path(source).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise LoadError(f"cannot read the metrics in {source}: {error.strerror}", hint=_HINT) from error
        candidates = [text] if self._metrics_file else reversed(text.splitlines())
        for candidate in candidates:
            if _is_object(candidate):
                return candidate, source
        raise LoadError(f"there is no JSON object in {source}", hint=_HINT)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _flatten(value: object, name: str) -> Iterator[tuple[str, float]]:
    """Yield every number in a JSON value with its dotted name; truth values are not numbers."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from _flatten(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _flatten(inner, f"{name}.{index}" if name else str(index))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield name, float(value)
