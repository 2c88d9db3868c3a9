"""Who does the work: processes of this machine (spawned, single-threaded, deaf to Ctrl-C, gone with their
parent), threads of this process where kernels release the lock, or a Ray cluster.

Comparisons and learners get their workers here, and results never depend on who they are.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass

from proreus.model.errors import UsageError
from proreus.workers.cores import available_cores

_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclass(frozen=True)
class Workers:
    """How many processes of this machine, or which cluster."""

    processes: int = 0
    """On this machine, a Ray cluster that is started here included; 0: one per core."""
    ray: str = ""
    """"": no Ray; "local": start it here; else where its head is, as host:port, or "auto"."""

    def __post_init__(self) -> None:
        if self.processes < 0:
            raise UsageError(f"--processes {self.processes} is negative")

    @property
    def count(self) -> int:
        """Processes of this machine."""
        return self.processes or available_cores()


@contextmanager
def pool_of(workers: Workers, tasks: int, *, threads: bool = False) -> Iterator[Executor]:
    """A pool for so many tasks; `threads`: of this process, for kernels that release the lock."""
    if workers.ray:
        from proreus.workers.ray import ray_pool

        with ray_pool(workers) as cluster:
            yield cluster
    elif threads:
        pool = ThreadPoolExecutor(min(workers.count, tasks), "worker")
        try:
            yield pool
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
    else:
        with worker_pool(min(workers.count, tasks)) as processes:
            yield processes


def loss_in_words(error: BrokenExecutor, when: str) -> str:
    """That workers died, and why they may have, in one line."""
    if not isinstance(error, BrokenProcessPool):
        return f"a Ray worker was lost {when}: it was killed, or its machine went away ({error})"
    return (
        f"a worker process died {when}: it was killed, perhaps for want of memory (try fewer processes), or "
        "could not start (a script needs `if __name__ == '__main__':`)"
    )


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of started workers; left through an exception, it ends them at once and not after their tasks.

    Spawned and not forked: a fork of a process with Numba's or BLAS's threads may hang.
    """
    not_ours = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _follow_the_parent)
    finished = False
    try:
        # A process is started for every task that finds none idle, and inherits these settings.
        with _one_thread_each(), _interrupts_held_back():
            for _ in range(workers):
                pool.submit(os.getpid)
        yield pool
        finished = True
    finally:
        if not finished:
            for process in set(multiprocessing.active_children()) - not_ours:
                process.kill()
        pool.shutdown(wait=True, cancel_futures=True)


def _follow_the_parent() -> None:
    """Ctrl-C reaches the whole group; the parent alone reports it, and ends the workers.

    A parent that is killed ends nobody: its workers would wait for tasks for ever.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_parent, name="parent-watch", daemon=True).start()


def _end_with_the_parent() -> None:
    # Not PR_SET_PDEATHSIG: that fires when the thread that started the worker ends, and needs Linux.
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """Processes started meanwhile begin with Ctrl-C blocked, so that it cannot hit one that still imports."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Processes started meanwhile run their numerics on one thread: there is one process per core already."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
