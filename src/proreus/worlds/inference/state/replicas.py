"""What replicas of a service say of themselves, and what has happened between two times that they said it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from proreus.worlds.inference.state.histograms import Histogram, together


@dataclass(frozen=True)
class ReplicaSample:
    """One replica at one moment; counters begin at 0 whenever it starts."""

    at: float
    running: float
    waiting: float
    kv_use: float
    prompt_tokens: float
    output_tokens: float
    ended: float
    served: float
    """Of those that ended, not aborted ones."""
    ttft: Histogram
    tbt: Histogram
    """Mean time between tokens of each request that has ended."""
    wait: Histogram
    heartbeat: float | None = None
    """What grows as long as whoever answers lives, idle or not; None: it does not say."""
    looked_up: float = 0.0
    """Tokens of prompts for which its prefix cache was asked."""
    found: float = 0.0
    """Those of them that it knew."""
    hit_rate: float | None = None
    """The share of them lately, of an engine that does not count them."""

    @property
    def under_way(self) -> float:
        """Requests that it has."""
        return self.running + self.waiting

    @property
    def prompts(self) -> float:
        """Requests under way that have had no token yet: those that wait, and those whose prompt is computed.

        All that ever came and were not aborted, less those with a first token. Requests that are aborted
        behind it make that too few, so that at the least those that wait are counted.
        """
        return min(max(self.served + self.under_way - self.ttft.count, self.waiting), self.under_way)


@dataclass(frozen=True)
class Absent:
    """Nobody answers there, or nobody who serves: a replica that loads looks like this."""

    why: str = ""


@dataclass(frozen=True)
class Unreadable:
    """Somebody answers, and what they say cannot be used."""

    reason: str
    """One of few words, to be counted by."""
    why: str


Reading = ReplicaSample | Absent | Unreadable


@dataclass(frozen=True)
class Movement:
    """What has happened at a replica between two samples."""

    seconds: float
    arrived: float
    """vLLM does not count arrivals: they are those that ended, and those that are under way in addition."""
    prompt_tokens: float
    output_tokens: float
    ended: float
    ttft: Histogram
    tbt: Histogram
    wait: Histogram
    began_anew: bool
    """Whether its counters did: it has started since."""
    looked_up: float = 0.0
    found: float = 0.0
    """Tokens of prompts that a prefix cache was asked for, and knew."""

    @property
    def computed(self) -> float:
        """Tokens of prompts that were computed, since no cache knew them."""
        share = self.found / self.looked_up if self.looked_up > 0 else 0.0
        return self.prompt_tokens * (1.0 - min(share, 1.0))


def movement(now: ReplicaSample, before: ReplicaSample) -> Movement:
    """From one sample to the next; one that began anew has done since what its counters say."""
    seconds = max(now.at - before.at, 1e-9)
    counters = (
        now.prompt_tokens - before.prompt_tokens,
        now.output_tokens - before.output_tokens,
        now.ended - before.ended,
    )
    prefixes = (now.looked_up - before.looked_up, now.found - before.found)
    ttft, tbt, wait = now.ttft.since(before.ttft), now.tbt.since(before.tbt), now.wait.since(before.wait)
    if min(*counters, *prefixes) < 0 or ttft is None or tbt is None or wait is None:
        return since_start(now, seconds)
    arrived = max(counters[2] + now.under_way - before.under_way, 0.0)
    if now.hit_rate is not None:
        prefixes = (counters[0], counters[0] * now.hit_rate)
    return Movement(seconds, arrived, *counters, ttft, tbt, wait, False, *prefixes)


def since_start(now: ReplicaSample, seconds: float) -> Movement:
    """Of a replica that was not there so many seconds ago."""
    return Movement(
        seconds,
        now.ended + now.under_way,
        now.prompt_tokens,
        now.output_tokens,
        now.ended,
        now.ttft,
        now.tbt,
        now.wait,
        began_anew=True,
        looked_up=now.looked_up if now.hit_rate is None else now.prompt_tokens,
        found=now.found if now.hit_rate is None else now.prompt_tokens * now.hit_rate,
    )


@dataclass(frozen=True)
class PoolMovement:
    """What has happened at the replicas of a pool, a second."""

    requests: float
    first_tokens: float
    prompt_tokens: float
    output_tokens: float
    ended: float
    """Not a second: all of them."""
    ttft: Histogram | None
    tbt: Histogram | None
    wait: Histogram | None
    found: float | None = None
    """Share of the tokens of prompts that prefix caches knew; None: they were asked for none."""


def sum_of(movements: Iterable[Movement]) -> PoolMovement:
    """Each over its own time: one that could not be read for a while counts for all of it."""
    found = list(movements)
    looked_up = sum(movement.looked_up for movement in found)
    return PoolMovement(
        requests=sum(movement.arrived / movement.seconds for movement in found),
        first_tokens=sum(movement.ttft.count / movement.seconds for movement in found),
        prompt_tokens=sum(movement.prompt_tokens / movement.seconds for movement in found),
        output_tokens=sum(movement.output_tokens / movement.seconds for movement in found),
        ended=sum(movement.ended for movement in found),
        ttft=together(movement.ttft for movement in found),
        tbt=together(movement.tbt for movement in found),
        wait=together(movement.wait for movement in found),
        found=min(sum(movement.found for movement in found) / looked_up, 1.0) if looked_up > 0 else None,
    )
