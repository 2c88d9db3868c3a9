"""The environment as one would write it in plain NumPy: a `gymnasium.Env` over arrays of nodes and a heap of
events. The same decisions lead to the same observations and rewards."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from proreus.kernels.arrays import Bool
from proreus.worlds.functions.bench.plain import MOST, PlainRun
from proreus.worlds.functions.model import Demand, FunctionsTerms

_KEPT = 60.0


class PlainEnv(gymnasium.Env[dict[str, Any], np.int64]):
    """Place one instance a step; the document's observation and its reward."""

    def __init__(
        self, demands: list[Demand], terms: FunctionsTerms, kinds: int = 5, kept: float = _KEPT
    ) -> None:
        self._demands, self._terms, self._kinds, self._kept = demands, terms, kinds, kept
        self._episode = 0
        self._run: PlainRun
        self.action_space = spaces.Discrete(terms.count)
        top = np.float32(1e9)
        shapes = {name: value.shape for name, value in self._begun(0).items()}
        self.observation_space = spaces.Dict(
            {name: spaces.Box(np.float32(0.0), top, shape, np.float32) for name, shape in shapes.items()}
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Begin the episode of that number in `options`, else a drawn one."""
        super().reset(seed=seed)
        drawn = (options or {}).get("episode", int(self.np_random.integers(len(self._demands))))
        seen = self._begun(drawn)
        return seen, {"action_mask": self.action_masks()}

    def step(self, action: np.int64 | int) -> tuple[dict[str, Any], float, bool, bool, dict[str, Any]]:
        """Place the instance at hand."""
        run = self._run
        before = run.now, run.paid, run.rfrt, run.served + run.dropped
        run.place(int(action))
        over = run.asks == "over"
        return self._observed(), self._reward(before), over, False, {"action_mask": self.action_masks()}

    def action_masks(self) -> Bool:
        """bool[N]: nodes with room."""
        if self._run.asks == "over":
            return np.ones(self._terms.count, dtype=np.bool_)
        return np.array([self._run.fits(node) for node in range(self._terms.count)])

    def _begun(self, episode: int) -> dict[str, Any]:
        self._run = PlainRun(self._demands[episode], self._terms, self._kept)
        return self._observed()

    def _reward(self, before: tuple[float, float, float, int]) -> float:
        run, (now, paid, rfrt, over) = self._run, before
        ended = run.served + run.dropped - over
        latency, cost = 0.0, 0.0
        if ended:
            low, high = self._terms.rfrt_low, self._terms.rfrt_high
            latency = float(np.clip(((run.rfrt - rfrt) / ended - low) / (high - low), 0.0, 1.0))
        if run.now > now:
            cost = (run.paid - paid) / (float(run.price.sum()) * (run.now - now))
        return -(self._terms.beta * latency + (1.0 - self._terms.beta) * cost)

    def _observed(self) -> dict[str, Any]:
        run = self._run
        function = run.demand.functions[run.subject]
        used = np.stack(
            [
                np.minimum(run.used[:, 0] / run.capacity[:, 0], 1.0),
                run.reserved[:, 1] / run.capacity[:, 1],
                np.minimum(run.used[:, 1] / run.capacity[:, 2], 1.0),
                np.minimum(run.used[:, 2] / run.capacity[:, 3], 1.0),
            ],
            axis=1,
        )
        units = np.array([1_000.0, 1_024.0])
        requests = run.running + np.array([len(queue) for queue in run.queues])
        cluster = np.zeros(self._kinds)
        np.add.at(cluster, [each.kind % self._kinds for each in run.demand.functions], requests)
        found = {
            "node_utilization": used,
            "node_capacity": run.capacity[:, :2] / units,
            "node_price": run.price / 1e6,
            "node_deployed": run.reserved / units,
            "node_active": np.ones(len(run.holds)),
            "current_function_request": np.array([function.cpu, function.memory]) / units,
            "current_function_io": np.array([function.net / 1_000.0, function.disk]) * function.concurrency,
            "current_function_requests": requests[run.subject : run.subject + 1],
            "current_function_rart": np.minimum(run.last_rfrt[run.subject : run.subject + 1], MOST),
            "cluster_function_requests": cluster,
        }
        return {name: value.astype(np.float32) for name, value in found.items()}
