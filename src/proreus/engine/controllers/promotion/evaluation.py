"""What a trace says of a candidate: long work, done in a process of its own so that no pod waits for it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module

from proreus.engine.controllers.promotion.core import Evidence, LiveEvidence, lived
from proreus.engine.objects.promotions import Promotion
from proreus.engine.objects.scheduler_config import Chosen, admitted_choice
from proreus.engine.trace.segments import decode_all, trace_of
from proreus.model.cluster_trace import ClusterTrace
from proreus.model.duel import Contest, Duel
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.policies.policy_folders import PolicyFolders
from proreus.workers.processes import worker_pool

Play = Callable[[ClusterTrace, Contest], Duel]
_MOST_PODS = 5_000
"""That a replay has: the newest of them."""
_MOST_SECONDS = 600.0
_NICER = 5
"""Than the engine: deciding comes first."""


@dataclass(frozen=True)
class Case:
    """Which candidate is to be judged, and by what."""

    scheduler: str
    chosen: Chosen
    promotion: Promotion
    now: float
    play: str
    """Who plays contests, as "module:function": the engine knows no simulator."""
    folders: PolicyFolders = field(default_factory=PolicyFolders)
    """What may be loaded for whoever has put up the candidate."""


Weigh = Callable[[Sequence[bytes], Case], Awaitable[Evidence]]
"""From the segments of a trace, as `encode` made them."""


def weigh(values: Sequence[bytes], case: Case) -> Evidence:
    segments, damaged = decode_all(values)
    try:
        trace = trace_of(segments, damaged)
        since = _since(trace, case.promotion.since)
        admitted = admitted_choice(case.chosen, case.folders)
        contest = Contest(admitted.policy, admitted.candidate, since, case.now)
        replay = _player(case.play)(trace, contest)
    except InputError:  # nothing has been recorded since then
        return Evidence(Duel(0), LiveEvidence())
    pods = (pod for pod in trace.pods if pod.scheduler == case.scheduler)
    return Evidence(replay, lived(pods, case.chosen, case.promotion.stage_since, trace.end))


def _since(trace: ClusterTrace, since: float) -> float:
    """Later where too many pods came for one replay."""
    came = [pod.created for pod in trace.pods if pod.created >= since]
    return came[-_MOST_PODS] if len(came) > _MOST_PODS else since


def _player(dotted: str) -> Play:
    module, _, name = dotted.partition(":")
    try:
        play: Play = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"the contest {dotted!r} cannot be loaded: {error}") from error
    return play


def _settle_in() -> None:
    """In the process that weighs: let others go first, and end with the engine, however that ends."""
    os.nice(_NICER)
    parent = multiprocessing.parent_process()
    assert parent is not None, "called in a worker"

    def outlive_nobody() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=outlive_nobody, daemon=True).start()


@asynccontextmanager
async def weighing_apart(most: float = _MOST_SECONDS) -> AsyncIterator[Weigh]:
    """A process for it, started when it is first needed; who is cancelled in the block ends it at once.

    most: seconds for one case; a candidate is code that may do whatever it likes.
    """
    async with AsyncExitStack() as stack:
        pools: list[tuple[Executor, ExitStack]] = []

        async def ask(values: Sequence[bytes], case: Case) -> Evidence:
            if not pools:
                own = stack.enter_context(ExitStack())
                pools.append((await asyncio.to_thread(own.enter_context, worker_pool(1)), own))
                await asyncio.wrap_future(pools[0][0].submit(_settle_in))
            pool, own = pools[0]
            try:
                async with asyncio.timeout(most):
                    return await asyncio.wrap_future(pool.submit(weigh, list(values), case))
            except (TimeoutError, BrokenExecutor) as error:
                pools.clear()
                own.__exit__(
                    type(error), error, error.__traceback__
                )  # ends the process; the next has its own
                if isinstance(error, BrokenExecutor):
                    raise
                raise WorkError(f"the replay has not ended for {most:g} s") from None

        yield ask
