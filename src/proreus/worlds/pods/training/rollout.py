"""What the lanes played, and the kernel that lets one lane play: on-policy learners share it.

E lanes, T steps of a rollout, N most nodes, F pair and G context features.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F32, F64, I64, U64, Bool
from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_unit
from proreus.kernels.structs import pack, packable
from proreus.workers.threads import Threads
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.encoding.rows import copy_rows
from proreus.worlds.pods.policies.scorer import ScorerScratch, forward, softmax
from proreus.worlds.pods.training.lane_kernel import (
    HEADS,
    POD,
    PREEMPTS,
    ROWS,
    PodLane,
    flat_action,
    start,
    step,
)


@packable
class Rollout(NamedTuple):
    """What the lanes played. Rows are kept for legal nodes only, one choice after the other."""

    rows: F32  # [E, (T + 1) N, F]
    start: I64  # [E, T + 2] where the rows of each choice begin
    context: F32  # [E, T + 1, G]
    preempts: Bool  # [E, T + 1]
    heads: I64  # [E] which actions besides rows are allowed
    action: I64  # [E, T] place in the list of rows, delay, reject
    log_chance: F32  # [E, T] of the action when it was played
    value: F32  # [E, T + 1] as the network gives it, normalised
    reward: F64  # [E, T]
    ended: Bool  # [E, T] the episode ended with this step
    advantage: F32  # [E, T]
    target: F32  # [E, T] what the value should have been, normalised


class EndedEpisodes(NamedTuple):
    """Episodes that ended, and the sums of their lengths and returns."""

    episodes: int
    length: int
    total: float


class FusedLanes(Protocol):
    """Copies of the world that play a network's choices: here (`BatchedPods`) or on other machines."""

    nodes: int
    """Of the largest cluster."""

    def __len__(self) -> int: ...

    def play(
        self, params: F32, rollouts: Sequence[Rollout], works: Sequence[ScorerScratch], threads: Threads
    ) -> EndedEpisodes:
        """Let every lane make its choices; one private handle of the rollout and one space per thread."""
        ...

    def capture(self) -> Arrays:
        """Everything that changes, by name."""
        ...

    def restore(self, saved: Mapping[str, Any]) -> object:
        """Take up what `capture` of equal lanes returned."""
        ...


def shared_out(lanes: int, shares: int) -> list[range]:
    """The lanes of each share: as equal as can be, one after the other."""
    ends = [lanes * k // shares for k in range(shares + 1)]
    return [range(first, last) for first, last in itertools.pairwise(ends)]


def sum_of(parts: Sequence[EndedEpisodes]) -> EndedEpisodes:
    """What ended in all the lanes; added in their order, so that it does not matter where they played."""
    return EndedEpisodes(
        sum(part.episodes for part in parts),
        sum(part.length for part in parts),
        sum((part.total for part in parts), 0.0),
    )


def new_rollout(lanes: int, steps: int, nodes: int) -> Rollout:
    """Room for a rollout; pages of rows that are never played are never touched."""
    return pack(
        Rollout(
            rows=np.zeros((lanes, (steps + 1) * nodes, len(PAIR_FEATURES)), dtype=np.float32),
            start=np.zeros((lanes, steps + 2), dtype=np.int64),
            context=np.zeros((lanes, steps + 1, len(CONTEXT_FEATURES)), dtype=np.float32),
            preempts=np.zeros((lanes, steps + 1), dtype=np.bool_),
            heads=np.zeros(lanes, dtype=np.int64),
            action=np.zeros((lanes, steps), dtype=np.int64),
            log_chance=np.zeros((lanes, steps), dtype=np.float32),
            value=np.zeros((lanes, steps + 1), dtype=np.float32),
            reward=np.zeros((lanes, steps)),
            ended=np.zeros((lanes, steps), dtype=np.bool_),
            advantage=np.zeros((lanes, steps), dtype=np.float32),
            target=np.zeros((lanes, steps), dtype=np.float32),
        )
    )


@compiled
def play(lane: PodLane, rollout: Rollout, e: int, params: F32, work: ScorerScratch) -> None:
    """Let lane e make its choices with the network and note them; the last value is for what comes after."""
    start(lane)
    steps = rollout.action.shape[1]
    heads = lane.rules[HEADS]
    rollout.heads[e] = heads
    for t in range(steps + 1):
        count, preempts = lane.now[ROWS], lane.now[PREEMPTS] > 0
        at = rollout.start[e, t]
        rollout.start[e, t + 1] = at + count
        rows = rollout.rows[e, at : at + count]
        copy_rows(lane.encoder, lane.cluster.pod_class[lane.now[POD]], lane.nodes, count, rows)
        rollout.context[e, t] = lane.context
        rollout.preempts[e, t] = preempts
        rollout.value[e, t] = forward(params, rows, (count, preempts), lane.context, work)
        if t == steps:
            return
        total = softmax(work, count, heads)
        place = _draw(work.chances, count + 2, lane.rng)
        rollout.action[e, t] = place
        rollout.log_chance[e, t] = work.logits[place] - total
        reward, ended = step(lane, flat_action(lane, place))
        rollout.reward[e, t] = reward
        rollout.ended[e, t] = ended


@compiled
def _draw(chances: F32, count: int, rng: U64) -> int:
    """A place drawn by its chance; one whose chance is 0 is never drawn."""
    left = next_unit(rng)
    last = 0
    for k in range(count):
        if chances[k] > 0.0:
            last = k
            left -= chances[k]
            if left < 0.0:
                return k
    return last
