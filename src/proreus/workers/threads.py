"""Two or more threads over kernels that release the lock: who does what is fixed, so results never vary."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait

from proreus.workers.cores import available_cores


class Threads:
    """Runs numbered tasks; task i always runs on thread i modulo the number of threads."""

    def __init__(self, count: int = 0) -> None:
        self.count = count or available_cores()
        self._pool = ThreadPoolExecutor(self.count - 1, "learner") if self.count > 1 else None

    def each(self, task: Callable[[int, int], None], tasks: int) -> None:
        """Call task(thread, i) for every i below `tasks`; returns when all are done."""

        def share(thread: int) -> None:
            for i in range(thread, tasks, self.count):
                task(thread, i)

        waiting: list[Future[None]] = []
        if self._pool is not None:
            waiting = [self._pool.submit(share, thread) for thread in range(1, min(self.count, tasks))]
        try:
            share(0)
        finally:
            wait(waiting)  # whatever happens, nobody works on when this returns
        for future in waiting:
            future.result()

    def close(self) -> None:
        """Let the threads go."""
        if self._pool is not None:
            self._pool.shutdown()
