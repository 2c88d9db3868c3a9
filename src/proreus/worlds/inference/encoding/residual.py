"""A row of features for each shift of a rule's targets: how far each pool is to be from what the rule wants.

A learner that scores these begins at the rule: whoever never changes an offset plays it. One step changes the
offset of each pool by one at most, so that two pools have nine choices, not the 847 joint changes of
`encoding.actions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from proreus.kernels.arrays import F32, F64, I64, Bool
from proreus.worlds.inference.encoding.demand import arrivals_of, demand_of
from proreus.worlds.inference.encoding.pools import CONTEXT, FEATURES, MOST, encode
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.state.observation import InferenceObservation, PoolSeen

VERSION = "inference-residual-1"
FEWEST, MOST_MORE = -1, 4
"""Instances of a pool below and above what the rule wants that a learner may hold."""
_POOLS = 2
_OF_POOL = ("expected load with it", "likely most with it", "offset with it", "change of the offset")
ROW = (*(f"{what}, pool {pool}" for pool in range(_POOLS) for what in _OF_POOL), "keeps the offsets")
KEEPS = ROW.index("keeps the offsets")
_BESIDE = ("log of what the rule wants over what there is", "offset")
SIZES = (len(ROW), _POOLS * (len(FEATURES) + len(_BESIDE)) + len(CONTEXT))


@dataclass(frozen=True, eq=False)
class OffsetChoices:
    """The decision at hand: which offsets to hold from now on."""

    rows: F32
    """[K, F]"""
    context: F32
    """[G]"""
    legal: Bool
    """[K]"""

    def action_mask(self) -> Bool:
        """bool[K]: the changes that no bound forbids."""
        return self.legal


@lru_cache(maxsize=4)
def offset_steps(pools: int) -> I64:
    """[K, pools] changes of the offsets; the middle one changes nothing."""
    digits = np.stack(np.meshgrid(*([np.arange(-1, 2)] * pools), indexing="ij"), axis=-1)
    return digits.reshape(-1, pools).astype(np.int64)


def without_offsets(seen: InferenceObservation, offsets: Mapping[Role, int]) -> InferenceObservation:
    """What the rule is shown: the cluster as it would be had nobody shifted its targets."""
    pools = tuple(_without(pool, offsets.get(pool.role, 0)) for pool in seen.pools)
    gone = sum(pool.coming for pool in seen.pools) - sum(pool.coming for pool in pools)
    return replace(seen, pools=pools, total=max(seen.total - gone, 0))


def _without(pool: PoolSeen, offset: int) -> PoolSeen:
    if offset <= 0:
        return replace(pool, active=pool.active - offset)
    cancelled = min(offset, len(pool.starting))
    starting = pool.starting[: len(pool.starting) - cancelled]
    least = min(pool.active, 1)  # a pool that serves is not shown as one that does not
    return replace(pool, starting=starting, active=max(pool.active - (offset - cancelled), least))


def encode_offsets(
    seen: InferenceObservation, wanted: Mapping[Role, int], offsets: Mapping[Role, int]
) -> OffsetChoices:
    """The choices, given what the rule wants and the offsets that are held."""
    arrivals, steps = arrivals_of(seen), offset_steps(len(seen.pools))
    pools, context = encode(seen, arrivals)
    legal = np.maximum(steps, 0).sum(axis=1) <= seen.room
    columns: list[F64] = []
    beside: list[float] = []
    for place, pool in enumerate(seen.pools):
        each, target = demand_of(seen, pool.role).each, wanted.get(pool.role, pool.coming)
        offset = offsets.get(pool.role, 0)
        held = offset + steps[:, place]
        after = np.maximum(target + held, 0.5)
        columns += [
            arrivals.expected * each / after,
            arrivals.likely_most * each / after,
            held / MOST_MORE,
            steps[:, place].astype(np.float64),
        ]
        beside += [math.log(max(target, 0.5) / max(pool.coming, 0.5)), offset / MOST_MORE]
        legal &= (held >= FEWEST) & (held <= MOST_MORE)
        legal &= (steps[:, place] >= 0) | (target + held >= max(seen.limits.least, 1))
    missing = _POOLS - len(seen.pools)
    columns += [np.zeros(len(steps))] * missing * len(_OF_POOL)
    keeps = (steps == 0).all(axis=1)
    columns.append(keeps.astype(np.float64))
    rows = np.clip(np.nan_to_num(np.stack(columns, axis=1), posinf=MOST, neginf=-MOST), -MOST, MOST)
    padding = np.zeros(missing * (len(FEATURES) + len(_BESIDE)))
    whole = np.concatenate([pools.ravel(), context, np.clip(beside, -MOST, MOST), padding])
    return OffsetChoices(rows.astype(np.float32), whole.astype(np.float32), legal | keeps)
