"""How much containers use, from what they have used."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from proreus.engine.runtimes.cgroups import CgroupUsage
from proreus.engine.runtimes.protocol import Use

SHORTEST = 0.1
"""Over less than so many seconds a rate says nothing: the one before is told again."""


class Rates:
    """Remembers what each container had used when it was last asked about."""

    def __init__(self, spent: Callable[[str], CgroupUsage | None]) -> None:
        self._spent = spent
        self._before: dict[str, tuple[float, int, int]] = {}
        """Moment, nanoseconds of CPU, and the rate then, by the backend's id."""

    def of(
        self, running: Mapping[tuple[str, str], str], disk: Mapping[tuple[str, str], int] | None = None
    ) -> list[Use]:
        """By pod and container; who has no numbers is left out. disk: bytes, as they were last seen."""
        now, written = time.monotonic(), disk or {}
        uses = []
        for place, id in running.items():
            spent = self._spent(id)
            if spent is None:
                continue
            moment, cpu, rate = self._before.get(id, (now, spent.cpu, 0))
            if now - moment >= SHORTEST:
                rate = max(0, round((spent.cpu - cpu) / (now - moment) / 1e6))
                moment, cpu = now, spent.cpu
            self._before[id] = (moment, cpu, rate)
            uses.append(Use(*place, rate, spent.memory, written.get(place, 0)))
        kept = set(running.values())
        self._before = {id: known for id, known in self._before.items() if id in kept}
        return uses
