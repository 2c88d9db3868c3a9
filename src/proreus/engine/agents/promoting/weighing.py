"""What a trace says of a candidate: long work, done in a process of its own so that no pod waits for it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from importlib import import_module

from proreus.engine.agents.promoting.core import Evidence, Live, lived
from proreus.engine.objects.promotions import Promotion
from proreus.engine.objects.schedulers import Chosen
from proreus.engine.trace.segments import decode_all, trace_of
from proreus.model.cluster_trace import ClusterTrace
from proreus.model.contest import Contest, Duel
from proreus.model.errors import InputError, UsageError
from proreus.workers.processes import worker_pool

Play = Callable[[ClusterTrace, Contest], Duel]
_MOST_PODS = 5_000
"""That a replay has: the newest of them."""
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


Weigh = Callable[[Sequence[bytes], Case], Awaitable[Evidence]]
"""From the segments of a trace, as they stand in the store."""


def weigh(values: Sequence[bytes], case: Case) -> Evidence:
    """See the module."""
    segments, damaged = decode_all(values)
    try:
        trace = trace_of(segments, damaged)
        since = _since(trace, case.promotion.since)
        contest = Contest(case.chosen.policy, case.chosen.candidate, since, case.now)
        replay = _player(case.play)(trace, contest)
    except InputError:  # nothing has been recorded since then
        return Evidence(Duel(0), Live())
    pods = (pod for pod in trace.pods if pod.scheduler == case.scheduler)
    return Evidence(replay, lived(pods, case.chosen, case.promotion.stage_since, trace.end))


def _since(trace: ClusterTrace, since: float) -> float:
    """Later where too many pods came for one replay."""
    came = [pod.created for pod in trace.pods if pod.created >= since]
    return came[-_MOST_PODS] if len(came) > _MOST_PODS else since


def _player(dotted: str) -> Play:
    module, _, name = dotted.partition(":")
    try:
        found: Play = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(f"the contest {dotted!r} cannot be loaded: {error}") from error
    return found


@asynccontextmanager
async def weighing_apart() -> AsyncIterator[Weigh]:
    """A process for it, started when it is first needed; who is cancelled in the block ends it at once."""
    with ExitStack() as stack:
        pools: list[Executor] = []

        async def ask(values: Sequence[bytes], case: Case) -> Evidence:
            if not pools:
                pools.append(await asyncio.to_thread(stack.enter_context, worker_pool(1)))
                await asyncio.wrap_future(pools[0].submit(os.nice, _NICER))
            return await asyncio.wrap_future(pools[0].submit(weigh, list(values), case))

        yield ask
