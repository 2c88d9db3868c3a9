"""Work that can pause leaves the loop to others, however it is cut into pieces and however much there is."""

from __future__ import annotations

import asyncio
import time

from proreus.engine.objects.offload import LoopPauses

_STEP_SECONDS = 0.001


async def _work(stages: int, steps: int, seconds: float = _STEP_SECONDS) -> None:
    """Stages that follow each other as reading, choosing and writing do, each with pauses of its own."""
    for _ in range(stages):
        pauses = LoopPauses()
        for _ in range(steps):
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                pass
            if pauses.due:
                await pauses.take()


async def _rounds_beside(*works: asyncio.Task[None]) -> int:
    """How often somebody else had a turn until all were done."""
    rounds = 0
    while not all(work.done() for work in works):
        await asyncio.sleep(0)
        rounds += 1
    return rounds


def test_a_row_of_short_stages_pauses_as_a_long_one_does() -> None:
    async def scene() -> int:
        return await _rounds_beside(asyncio.create_task(_work(100, 1)))

    assert asyncio.run(scene()) >= 12


def test_many_at_once_share_the_time_of_a_round() -> None:
    """With a share for each, twenty rounds would do."""

    async def scene() -> int:
        return await _rounds_beside(*(asyncio.create_task(_work(1, 20)) for _ in range(8)))

    assert asyncio.run(scene()) >= 15


def test_whoever_began_first_leaves_the_others_more_than_a_step() -> None:
    """A thousand short steps beside somebody who never has enough."""

    async def scene() -> int:
        greedy = asyncio.create_task(_work(1, 100_000))
        await asyncio.sleep(0)
        rounds = await _rounds_beside(asyncio.create_task(_work(1, 1000, 0.00002)))
        greedy.cancel()
        return rounds

    assert asyncio.run(scene()) < 500


def test_a_loop_that_ended_in_the_middle_leaves_the_next_its_time() -> None:
    async def begin() -> None:
        LoopPauses().due  # noqa: B018 - the round that it begins never ends

    for _ in range(3):
        asyncio.run(begin())
    test_a_row_of_short_stages_pauses_as_a_long_one_does()
