"""The engine, killed again and again under churn."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.engine.faults.processes import up
from tests.engine.faults.rig import SMALL, Rig, rigged


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

    def note(self, rig: Rig) -> None:
        """How it stands."""
        self.broken, counts = rig.broken(), rig.history.laws.counts
        self.acknowledged, self.told, self.bound = rig.churn.ledger.writes, counts.total(), counts["bound"]
        self.attempts_without_answer = rig.client.met["no answer"]
        self.longest_to_an_answer = rig.client.longest

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
    draw = random.Random(seed)
    try:
        async with rigged(server, seed=seed) as rig:
            while found.kills < kills and not found.broken:
                async with rig.churn.going_on():
                    for _ in range(min(10, kills - found.kills)):
                        await asyncio.sleep(draw.random() * 1.5)
                        engine.kill()
                        found.kills += 1
                        found.longest_start = max(found.longest_start, await engine.start())
                took = await rig.settled()
                found.longest_to_what_was_asked_for = max(found.longest_to_what_was_asked_for, took)
                found.seconds = time.monotonic() - begun
                found.note(rig)
                say(str(found.as_dict()))
    finally:
        engine.kill()
    if "Traceback" in engine.said():
        found.broken.append(engine.said()[-3000:])
    return found
