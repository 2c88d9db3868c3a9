"""What changes in the lanes, as tensors that stay where they are.

Wide columns are written in place. What is one figure a lane is replaced while a step is under way (`working`)
and written back at its end (`commit`), so that a captured graph finds everything at the address it knows.
P most pods of an episode; other letters as in `tables`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from proreus.learning.tensor_lanes.columns import named_columns, write_back
from proreus.learning.tensor_lanes.gather import reset
from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.training.device.tables import Tables

# Where a pod is in its life; GONE: done, rejected or failed.
FUTURE, ACTIVE, WOKEN, BACKING_OFF, POOLED, RUNNING, DECIDING, GONE = range(8)
# What a lane does next. While it evicts: marks who may be evicted by budgets, spares whom it can, takes off.
NEW_EPISODE, DEPART, ARRIVE, HAND_OUT, DECIDE, MARK, SPARE, TAKE_OFF = range(8)
# Marks of pods while a lane evicts; CALLED: waits in the pool, and a victim stood in its way.
UNMARKED, CANDIDATE, LOWER, VIOLATING, SPARED, VICTIM, VIOLATING_VICTIM, CALLED = range(8)


@dataclass(eq=False)
class PodColumns:
    """[E, P] each."""

    status: Tensor  # int8
    pod_class: Tensor
    level: Tensor
    work: Tensor  # float64
    attempts: Tensor
    queued: Tensor  # float64
    ticket: Tensor
    when: Tensor  # float64: the running end, those that back off come back
    since: Tensor  # float64
    rank: Tensor
    node: Tensor
    devices: Tensor  # bit mask
    mark: Tensor  # int8


@dataclass(eq=False)
class NodeColumns:
    """[E, N, ..] each."""

    free: Tensor  # [E, N, R]
    left: Tensor  # [E, N, G]
    scored: Tensor  # [E, N, 2]
    load: Tensor  # [E, N] float64
    pods: Tensor  # [E, N]
    held: Tensor  # [E, N, L, R] by pods of each level
    held_gpu: Tensor  # [E, N, L, G]
    held_pods: Tensor  # [E, N, L]
    matching: Tensor  # [E, T, D + 1]
    avoided: Tensor  # [E, T, D + 1]
    held_matching: Tensor  # [E, N, L, T] of the pods there, selected by the term
    held_avoided: Tensor  # [E, N, L, T]


@dataclass(eq=False)
class LaneColumns:
    """[E] each, but for budgets and the dry run of an eviction."""

    phase: Tensor
    pod: Tensor
    clock: Tensor  # float64
    arrivals: Tensor  # pods that have arrived
    arrival: Tensor  # float64: when the next comes
    sequence: Tensor
    placements: Tensor
    waiting: Tensor
    eligible: Tensor  # of those that wait: active or woken
    running: Tensor
    presence: Tensor  # float64
    earned_until: Tensor  # float64: the presence that has been paid for
    rng: Tensor
    drawn_from: Tensor  # the generator when the episode began
    reward: Tensor  # float64: since the last choice
    total: Tensor  # float64: return of this episode
    length: Tensor
    ended: Tensor  # bool: an episode ended since the last choice
    empty: Tensor  # episodes in a row without a choice
    ended_episodes: Tensor
    ended_length: Tensor
    ended_total: Tensor  # float64
    healthy: Tensor  # [E, B]
    expected: Tensor  # [E, B]
    target: Tensor  # the node that is evicted from
    change: Tensor  # of what the reward `allocation` counts, in this decision
    dry_free: Tensor  # [E, R] of the target
    dry_left: Tensor  # [E, G]
    dry_matching: Tensor  # [E, T]
    dry_avoided: Tensor  # [E, T]
    taken: Tensor  # [E, B]


@dataclass(eq=False)
class LaneState:
    """Everything of all lanes."""

    pods: PodColumns
    nodes: NodeColumns
    lanes: LaneColumns

    def working(self) -> LaneState:
        """For one step: the same wide columns, figures of lanes that may be replaced."""
        return LaneState(self.pods, self.nodes, replace(self.lanes))

    def commit(self, work: LaneState) -> None:
        """Write the figures of a working state back to where they belong."""
        write_back(self.lanes, work.lanes)

    def named(self) -> dict[str, Tensor]:
        """All columns by their names."""
        return named_columns(self)


def new_state(tables: Tables, rng: Tensor, pods: int = 0) -> LaneState:
    """All lanes before their first episode; rng: int64[E]; pods: make room for so many at least."""
    lanes, device = rng.shape[0], rng.device
    pods = max(pods, int(tables.pods.episode.max()))
    of = tables.lanes
    nodes, resources = of.allocatable.shape[1], of.allocatable.shape[2]
    terms, budgets, levels = of.domain.shape[1], of.allowed.shape[1], tables.levels

    def whole(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int64, device=device)

    def real(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=device)

    def small(*shape: int) -> Tensor:
        return torch.zeros(shape, dtype=torch.int8, device=device)

    wide = (lanes, pods)
    evicting = levels if tables.preemption else 0
    per_level = (lanes, nodes, evicting)
    return LaneState(
        PodColumns(
            status=small(*wide),
            pod_class=whole(*wide),
            level=whole(*wide),
            work=real(*wide),
            attempts=whole(*wide),
            queued=real(*wide),
            ticket=whole(*wide),
            when=real(*wide),
            since=real(*wide),
            rank=whole(*wide),
            node=whole(*wide),
            devices=whole(*wide),
            mark=small(*wide),
        ),
        NodeColumns(
            free=whole(lanes, nodes, resources),
            left=whole(lanes, nodes, tables.gpus),
            scored=whole(lanes, nodes, 2),
            load=real(lanes, nodes),
            pods=whole(lanes, nodes),
            held=whole(*per_level, resources),
            held_gpu=whole(*per_level, tables.gpus),
            held_pods=whole(*per_level),
            matching=whole(lanes, terms, tables.domains + 1),
            avoided=whole(lanes, terms, tables.domains + 1),
            held_matching=whole(*per_level, terms),
            held_avoided=whole(*per_level, terms),
        ),
        LaneColumns(
            **{
                name: whole(lanes)
                for name in (
                    "phase",
                    "pod",
                    "arrivals",
                    "sequence",
                    "placements",
                    "waiting",
                    "eligible",
                    "running",
                    "drawn_from",
                    "length",
                    "empty",
                    "ended_episodes",
                    "ended_length",
                    "target",
                    "change",
                )
            },
            **{
                name: real(lanes)
                for name in (
                    "clock",
                    "arrival",
                    "presence",
                    "earned_until",
                    "reward",
                    "total",
                    "ended_total",
                )
            },
            rng=rng.clone(),
            ended=torch.zeros(lanes, dtype=torch.bool, device=device),
            healthy=whole(lanes, budgets),
            expected=whole(lanes, budgets),
            dry_free=whole(lanes, resources),
            dry_left=whole(lanes, tables.gpus),
            dry_matching=whole(lanes, terms),
            dry_avoided=whole(lanes, terms),
            taken=whole(lanes, budgets),
        ),
    )


def empty_clusters(tables: Tables, state: LaneState, lanes: Tensor) -> None:
    """Nothing on the nodes of these lanes, bool[E], and no pod there."""
    nodes, of = state.nodes, tables.lanes
    reset(state.pods.status, lanes, FUTURE)
    reset(state.pods.mark, lanes, UNMARKED)
    reset(nodes.free, lanes, of.allocatable)
    if tables.gpus:
        places = torch.arange(tables.gpus, device=lanes.device)
        reset(nodes.left, lanes, torch.where(places < of.gpu_count[:, :, None], GPU_WHOLE, 0))
    for name in ("scored", "load", "pods"):
        reset(getattr(nodes, name), lanes, 0)
    if nodes.matching.shape[1]:
        reset(nodes.matching, lanes, 0)
        reset(nodes.avoided, lanes, 0)
    if tables.preemption:
        for name in ("held", "held_pods", "held_gpu", "held_matching", "held_avoided"):
            reset(getattr(nodes, name), lanes, 0)
