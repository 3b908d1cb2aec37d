"""SIGKILL before any line of a module: steps are counted, not sampled."""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any


def killed_at(line: int, module: ModuleType, work: Callable[[], object]) -> bool:
    """Do the work in a child that is killed before the ``line``-th line of a module; False if it came to its end."""
    child = os.fork()
    if child == 0:
        left = line

        def count(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal left
            if frame.f_code.co_filename != module.__file__:
                return None
            if event == "line":
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return count

        try:
            sys.settrace(count)
            work()
            sys.settrace(None)
            os._exit(0)
        except BaseException:  # noqa: BLE001 - a child of a test must not go on as a second test run
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)
