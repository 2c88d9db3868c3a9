"""Many that are woken at once go on a few at a time, in their order, and whoever leaves takes no turn."""

from __future__ import annotations

import asyncio

from proreus.engine.watch.wakeups import WakeupRounds


def test_a_few_go_on_in_each_round() -> None:
    async def scenario() -> None:
        rounds, gone_on = WakeupRounds(4), list[int]()

        async def go_on(number: int) -> None:
            await rounds.turn()
            gone_on.append(number)

        tasks = [asyncio.create_task(go_on(number)) for number in range(50)]
        before, most = 0, 0
        for _ in range(200):
            await asyncio.sleep(0)
            if len(gone_on) == 10:
                tasks[20].cancel()
            most, before = max(most, len(gone_on) - before), len(gone_on)
        await asyncio.gather(*tasks, return_exceptions=True)
        assert gone_on == sorted(gone_on) and len(gone_on) >= 49
        assert most <= 8, "those of a round, and those that were let go for the next"
        await asyncio.wait_for(go_on(50), 1)

    asyncio.run(scenario())
