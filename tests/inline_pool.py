"""A pool that works in this process, for tests of what uses pools and not of the pools."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import nullcontext
from typing import Any

import pytest


class InlinePool(Executor):
    """Runs what is submitted at once, as it would arrive in another process: what cannot travel fails."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run it now."""
        work, words, named = pickle.loads(pickle.dumps((fn, args, kwargs)))
        future: Future[Any] = Future()
        future.set_result(work(*words, **named))
        return future


@pytest.fixture
def workers_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evolutions in this process start no workers: each would import everything again, for seconds.

    That real ones find the same is shown by those that are killed or run on Ray and then go on without.
    """
    monkeypatch.setattr("proreus.learning.run.pool_of", lambda *_, **__: nullcontext(InlinePool()))
