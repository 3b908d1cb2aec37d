"""I/O in a thread of its own, so that it does not hold up the client. Standard library only."""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread


class Aside:
    """Does tasks one after the other, beside whoever hands them over.

    A task that does I/O lets the other thread run meanwhile. After one has failed, no further one is done.
    """

    def __init__(self) -> None:
        self._failed: OSError | None = None
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = Thread(target=self._work)
        self._thread.start()

    def do(self, task: Callable[[], None]) -> None:
        """Have a task done later, after those before it.

        Raises:
            OSError: An earlier task failed with it.
        """
        if self._failed is not None:
            raise self._failed
        self._tasks.put(task)

    def close(self) -> None:
        """Wait until all is done.

        Raises:
            OSError: A task failed with it.
        """
        self._tasks.put(None)
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            if self._failed is None:
                try:
                    task()
                except OSError as failed:
                    self._failed = failed
