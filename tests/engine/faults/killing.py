"""The engine, killed again and again under churn."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.engine.faults.asked_for import until_as_asked_for
from tests.engine.faults.churn import Churn
from tests.engine.faults.client import Client
from tests.engine.faults.history import History
from tests.engine.faults.processes import up

SMALL = ("--nodes", "4", "--node-cpu", "6", "--node-memory", "8Gi")


@dataclass
class Found:
    """Of all kills together."""

    kills: int = 0
    acknowledged: int = 0
    told: int = 0
    """Changes that the watches told."""
    bound: int = 0
    attempts_without_answer: int = 0
    longest_to_an_answer: float = 0.0
    longest_start: float = 0.0
    longest_to_what_was_asked_for: float = 0.0
    seconds: float = 0.0
    broken: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


async def kill_often(
    folder: Path, store: tuple[str, ...], kills: int, seed: int, say: Callable[[str], None] = lambda _: None
) -> Found:
    """Kill the engine at drawn moments; every tenth time it must come to rest as asked for."""
    found, begun = Found(), time.monotonic()
    engine, server = up(folder / "up", *store, *SMALL)
    found.longest_start = await engine.start()
    client, watching = Client((server,)), Client((server,))
    history, churn = History(watching), Churn(client, seed)
    draw = random.Random(seed)
    try:
        async with history.followed():
            while found.kills < kills:
                async with churn.going_on():
                    for _ in range(min(10, kills - found.kills)):
                        await asyncio.sleep(draw.random() * 1.5)
                        engine.kill()
                        found.kills += 1
                        found.longest_start = max(found.longest_start, await engine.start())
                took = await until_as_asked_for(client, churn.ledger)
                found.longest_to_what_was_asked_for = max(found.longest_to_what_was_asked_for, took)
                await history.until_told()
                found.broken = [*history.laws.broken, *churn.ledger.missing(history.laws)]
                found.acknowledged, found.told = churn.ledger.writes, history.laws.counts.total()
                found.bound = history.laws.counts["bound"]
                found.seconds = time.monotonic() - begun
                say(str(found.as_dict()))
                if found.broken:
                    break
    finally:
        engine.kill()
        await client.close()
        await watching.close()
    found.attempts_without_answer = client.met["no answer"]
    found.longest_to_an_answer = client.longest
    if "Traceback" in engine.said():
        found.broken.append(engine.said()[-3000:])
    return found
