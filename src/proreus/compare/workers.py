"""Worker processes: spawned, single-threaded, deaf to Ctrl-C. Comparisons and learners start theirs here."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager

_ONE_THREAD = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


def available_cores() -> int:
    """The cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def worker_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """A pool of started workers; left through an exception, it ends them at once and not after their tasks.

    Spawned and not forked: a fork of a process with Numba's or BLAS's threads may hang.
    """
    not_ours = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _leave_interrupts_to_the_parent)
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


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches the whole group; the parent alone reports it, and ends the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


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
