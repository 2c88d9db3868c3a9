"""What a pretended container has written: lines made when someone reads them, always the same ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from proreus.engine.objects.timestamps import micro_timestamp
from proreus.engine.runtimes.simulated.draws import unit

_SAYINGS = (
    "GET /healthz 200 {small}ms",
    "GET /api/items?page={small} 200 {large}ms",
    "POST /api/orders 201 {large}ms",
    "cache: {large} entries, {small} evicted",
    "worker {small}: batch of {large} done",
    "queue depth {small}",
    "gc pause {small}ms",
)


@dataclass(frozen=True)
class Author:
    """One attempt at a container, as far as its output goes."""

    uid: str
    container: str
    attempt: int
    image: str
    started: float
    """Of the wall clock, as `ends`."""
    ends: float = math.inf
    exit_code: int = 0

    @property
    def pause(self) -> float:
        """Seconds between lines."""
        return 1.0 + 4.0 * unit(self.uid, self.container, "pause")

    def count(self, now: float) -> int:
        """How many lines stand by then."""
        if now < self.started:
            return 0
        said = 1 + int((min(now, self.ends) - self.started) / self.pause)
        return said + (now >= self.ends)

    def moment(self, line: int) -> float:
        """When that line is written."""
        return min(self.started + line * self.pause, self.ends)

    def text(self, line: int) -> str:
        """What it says."""
        if line == 0:
            return f"starting {self.image} (simulated container {self.container}, attempt {self.attempt})"
        if self.moment(line) >= self.ends:
            return f"exiting with code {self.exit_code}"
        chance = unit(self.uid, self.container, self.attempt, line)
        saying = _SAYINGS[int(chance * len(_SAYINGS))]
        return saying.format(small=int(chance * 7919) % 97, large=int(chance * 104729) % 4999)

    def written(self, now: float, *, after: int = 0, timestamps: bool = False) -> Iterator[bytes]:
        """The lines that stand by then, from the one with that number on."""
        for line in range(after, self.count(now)):
            stamp = f"{micro_timestamp(self.moment(line))} " if timestamps else ""
            yield f"{stamp}{self.text(line)}\n".encode()

    def first_since(self, since: float) -> int:
        """The number of the first line written from then on."""
        if since <= self.started:
            return 0
        return min(
            self.count(math.inf) if math.isfinite(self.ends) else 2**62,
            math.ceil((since - self.started) / self.pause),
        )
