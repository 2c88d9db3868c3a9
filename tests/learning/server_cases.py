"""A small world of servers to learn on, in plain NumPy: big requests come after small ones, nobody leaves."""

from __future__ import annotations

import numpy as np

from proreus.cluster.columns import F64, I64, Bool
from proreus.learning.servers import ServersState


class PackingServers:
    """Three servers of 2 x 8 cores; six small requests, then big ones that need an empty NUMA node each.

    Whoever packs the small ones tightly leaves more room for the big ones. The return is the number of
    placements; the best is 6 + 5 (all small ones on one NUMA node), spreading them evenly leaves 6 + 0.
    """

    lanes: int
    size = (8.0, 8.0)
    best_return = 11.0

    def __init__(self, lanes: int) -> None:
        self.lanes = lanes
        self._random = np.random.default_rng(0)

    def reset(self, seed: int) -> ServersState:
        self._random = np.random.default_rng(seed)
        self._left = np.full((self.lanes, 3, 2, 2), 8.0)
        self._done = np.zeros(self.lanes, dtype=np.int64)
        return self._state()

    def _asked(self) -> F64:
        return np.where(self._done < 6, 1.0, 8.0)

    def _state(self) -> ServersState:
        feat = np.zeros((self.lanes, 2, 2, 2))
        feat[:, 0, 0] = feat[:, 1, 1] = self._asked()[:, None]
        return ServersState(self._left.copy(), feat, self._avail())

    def _avail(self) -> Bool:
        fits = self._left >= self._asked()[:, None, None, None]
        return np.logical_and(fits[..., 0], fits[..., 1]).reshape(self.lanes, -1)

    def step(self, actions: I64) -> tuple[ServersState, F64, Bool]:
        lanes = np.arange(self.lanes)
        assert self._avail()[lanes, actions].all()
        self._left[lanes, actions // 2, actions % 2] -= self._asked()[:, None]
        self._done += 1
        ended = self._avail().sum(axis=1) == 0
        self._left[ended] = 8.0
        self._done[ended] = 0
        return self._state(), np.ones(self.lanes), ended
