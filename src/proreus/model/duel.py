"""Two policies over the same recorded work: what is asked of whoever replays it, and what comes back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contest:
    """Who against whom, over which stretch of a trace; moments are seconds since 1970."""

    policy: str
    candidate: str
    since: float
    until: float
    draws: int = 20
    """How many days of this kind are played: the first as recorded, the others drawn from its pods."""


@dataclass(frozen=True)
class Duel:
    """What a contest came to, draw by draw; in all of them less is better."""

    pods: int
    """That came meanwhile."""
    waits: tuple[tuple[float, float], ...] = ()
    """(policy, candidate): mean seconds for which a pod waited, to the end of the stretch at most."""
    evictions: tuple[tuple[float, float], ...] = ()
    """Pods evicted for others, per pod that came."""
    unplaced: tuple[tuple[float, float], ...] = ()
    """The share of pods that had no node at the end of the stretch."""
