"""Work on a Ray cluster, behind the surface of a pool of processes: who submits does not know the difference.

Ray is imported by the functions that use it and by nothing else. A cluster's machines need the same versions
of Python, Ray and Proreus as this one; workloads are loaded where they are needed, so datasets must lie on
every machine, in the same folder.
"""

from __future__ import annotations

import importlib.util
import os
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from proreus.model.errors import ProreusError, UsageError, WorkError, needs_extra
from proreus.workers.processes import Workers

LOCAL = "local"
_ANSWER_SECONDS = 5.0


@contextmanager
def ray_cluster(workers: Workers) -> Iterator[int]:
    """Connect to the cluster that `workers.ray` names, or start one here; yields the number of its CPUs."""
    if importlib.util.find_spec("ray") is None:
        raise UsageError(f"--ray {needs_extra('ray')}")
    address = workers.ray
    # Read by Ray when it is imported or started: it tells nobody that it is used, and logs errors only.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "error")
    import ray

    settings: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    settings |= {"num_cpus": workers.count}
    if address != LOCAL:
        settings = {}
        _knock(address)
    try:
        with _native_warnings_unheard():
            ray.init(address, log_to_driver=False, logging_level="critical", **settings)
    except ValueError as error:
        raise UsageError(f"--ray {address}: {_first_line(error)}") from error
    except (ConnectionError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
        why = _first_line(error)
        if "AuthenticationError" in f"{error}{error.__cause__}":
            why = "it asks for a token (RAY_AUTH_MODE=token, RAY_AUTH_TOKEN)"
        raise WorkError(f"--ray {address}: no Ray cluster: {why}") from error
    try:
        yield max(int(ray.cluster_resources().get("CPU", 1)), 1)
    finally:
        ray.shutdown()


@contextmanager
def ray_pool(workers: Workers) -> Iterator[Executor]:
    """An executor whose tasks run on the cluster, one CPU each."""
    with ray_cluster(workers):
        yield _RayExecutor()


class _RayExecutor(Executor):
    """`submit` and `map` as processes have them; a lost worker is a BrokenExecutor, as theirs is."""

    def __init__(self) -> None:
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        import ray

        if fn not in self._remote:
            self._remote[fn] = ray.remote(num_cpus=1, max_retries=0)(fn)
        answer: Future[Any] = Future()
        task = self._remote[fn].remote(*args, **kwargs)
        task.future().add_done_callback(partial(_hand_over, answer))
        return answer


def _hand_over(answer: Future[Any], done: Future[Any]) -> None:
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(as_ours(error))


def as_ours(error: BaseException) -> BaseException:
    """What happened on the cluster as if it had happened here; a lost worker as a BrokenExecutor."""
    import ray

    if isinstance(error, ray.exceptions.RayTaskError):
        cause = error.cause
        if isinstance(cause, ProreusError):
            return cause
        return WorkError(f"on a Ray worker: {type(cause).__name__}: {_first_line(cause)}")
    if isinstance(error, ray.exceptions.RayError):
        return BrokenExecutor(type(error).__name__)
    return error


def _knock(address: str) -> None:
    """See that somebody answers: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or "/" in host:
        return
    try:
        socket.create_connection((host, int(port)), timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise WorkError(f"--ray {address}: nobody answers there ({_first_line(error)})") from error


def _first_line(error: BaseException | None) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


@contextmanager
def _native_warnings_unheard() -> Iterator[None]:
    """Ray's start-up warns on stderr about what it then copes with; what matters comes as an exception."""
    with Path(os.devnull).open("wb") as nowhere:
        before = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
