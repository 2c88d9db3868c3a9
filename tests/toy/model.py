"""Jobs, two servers, and what a policy sees when a job needs a server."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F32, F64, Bool

SPEEDS = (1.0, 0.6)
ROOM = 4
"""Jobs that a server holds, the one it works on included."""
WAIT, ACTIONS = 2, 3
"""0 and 1 are servers."""
VERSION = "toy-1"
FEATURES, CONTEXT = ("seconds until done", "how full", "is the fast one", "is the slow one", "is to wait"), 2


@dataclass(frozen=True, eq=False)
class Jobs:
    """In order of arrival."""

    arrival: F64
    work: F64
    """Seconds on the fast server."""


def generate(count: int, load: float, seed: int) -> Jobs:
    """Arrivals and work by chance, so that both servers together are busy for that share of the time."""
    draw = np.random.default_rng(seed)
    return Jobs(np.cumsum(draw.exponential(1.0 / (load * sum(SPEEDS)), count)), draw.exponential(1.0, count))


@dataclass(frozen=True)
class ToyObservation:
    """The first job in line."""

    now: float
    job: int
    work: float
    held: tuple[int, int]
    """Jobs on each server."""
    busy: tuple[float, float]
    """Seconds until each has done what it holds."""
    line: int
    """Jobs that wait, this one included."""
    more: bool
    """Whether anything is still to happen: else nobody may wait for it."""

    def action_mask(self) -> Bool:
        """bool[3]: the servers with room, and to wait."""
        return np.array([*(held < ROOM for held in self.held), self.more])


def rows_of(seen: ToyObservation) -> F32:
    """[3, FEATURES] of each action."""
    rows = np.zeros((ACTIONS, len(FEATURES)), dtype=np.float32)
    for server, speed in enumerate(SPEEDS):
        rows[server, :2] = (seen.busy[server] + seen.work / speed) / 10.0, seen.held[server] / ROOM
    rows[:, 2:] = np.eye(ACTIONS)
    return rows


def context_of(seen: ToyObservation) -> F32:
    """[2] what holds for all actions."""
    return np.array([seen.work, seen.line / 10.0], dtype=np.float32)


def encode(seen: ToyObservation) -> tuple[F32, F32]:
    """Rows of actions, and what holds for all of them."""
    return rows_of(seen), context_of(seen)
