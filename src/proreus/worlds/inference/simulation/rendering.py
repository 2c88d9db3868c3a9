"""A run as people see it: lines of a screen, series of a timeline, and the pools as a replay draws them."""

from __future__ import annotations

import numpy as np

from proreus.contract.replay import ABSENT, OUTSIDE, Levels, Move, Stage, levels_of
from proreus.contract.simulation import Look
from proreus.contract.text_bars import MOST_LINES, bar
from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.cluster import ROLES
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster
from proreus.worlds.inference.state.observation import InferenceObservation

STATES = ("starting", "busy", "draining", "idle")
_LIFE = ("absent", "provisioning", "loading", "warming", "active", "draining", "stopped")
_GAUGES = ("KV memory", "batch", "queue, in batches")


class Pictures:
    """Of one cluster."""

    def __init__(self, cluster: InferenceCluster) -> None:
        self._cluster = cluster
        models = list(dict.fromkeys(kind.model.name for kind in cluster.spec.kinds))
        roles = [role for role in ROLES if any(group.role == role for group in cluster.spec.groups)]
        self._groups = [(number, ROLES.index(role)) for number in range(len(models)) for role in roles]
        self._names = tuple(
            f"{role} pool" if len(models) == 1 else f"{models[number]}, {role} pool"
            for number, role in ((number, ROLES[place]) for number, place in self._groups)
        )
        self._looked = -1.0

    def screen(self, head: str) -> list[str]:
        """A bar for each instance."""
        run = self._cluster.run
        use = self._shares()[:, 0]
        lines = [
            f"{run.fleet[row, c.NUMBER]:>4} {ROLES[run.fleet[row, c.TAG]]:<6} "
            f"{_LIFE[run.fleet[row, c.STATUS]]:<12} "
            f"kv ▕{bar(float(use[row]))}▏{run.fleet[row, c.BATCH]:>4}"
            for row in np.flatnonzero(self._alive()).tolist()
        ]
        return [head, *lines[:MOST_LINES]]

    def stage(self) -> Stage:
        """The servers, in the pools of their instances."""
        names = tuple(f"server {row}" for row in range(len(self._cluster.run.fleet)))
        return Stage(
            "server",
            names,
            _GAUGES,
            idle="nothing was started",
            clock=True,
            groups=self._names,
            states=STATES,
        )

    def look(self, seen: InferenceObservation, decided: int) -> Look:
        """The cluster now, as it was seen."""
        shares = self._shares()
        missed = 100.0 * (1.0 - seen.traffic.met)
        series = {
            "load": seen.traffic.requests,
            "instances": float(sum(pool.active for pool in seen.pools)),
            "missed": missed,
            "waiting": float(sum(pool.waiting for pool in seen.pools) + seen.at_router),
            "draining": float(sum(pool.draining for pool in seen.pools)),
        }
        for pool in seen.pools:
            series[f"{pool.role} active"] = float(pool.active)
            series[f"{pool.role} starting"] = float(len(pool.starting))
        moves = self._started()
        self._looked = self._cluster.now
        return Look(self._cluster.now, decided, series, shares[:, 0], self._levels(shares), moves)

    def told(self, now: Look) -> str:
        """A moment in words."""
        seen = now.series
        return (
            f"{now.count} decisions, {seen['load']:.1f} requests/s, {seen['waiting']:.0f} wait, "
            f"{seen['missed']:.0f} % missed"
        )

    def _alive(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        status = self._cluster.run.fleet[:, c.STATUS]
        alive: np.ndarray[tuple[int], np.dtype[np.bool_]] = (status != c.ABSENT) & (status != c.STOPPED)
        return alive

    def _shares(self) -> F64:
        """[servers, gauges] of those that serve."""
        run = self._cluster.run
        fleet = run.fleet
        room = np.maximum(fleet[:, c.CAPACITY] - fleet[:, c.WEIGHTS], 1)
        limit = np.maximum(fleet[:, c.BATCH_LIMIT], 1)
        shares = np.stack(
            [
                (fleet[:, c.MEMORY] - fleet[:, c.WEIGHTS]) / room,
                fleet[:, c.BATCH] / limit,
                run.waiting.size / limit,
            ],
            axis=1,
        )
        serving = np.isin(fleet[:, c.STATUS], (c.ACTIVE, c.DRAINING))
        return np.where(serving[:, None], shares, 0.0)

    def _levels(self, shares: F64) -> Levels:
        """[servers, 1, gauges, group and state] as the stage has them."""
        fleet = self._cluster.run.fleet
        status = fleet[:, c.STATUS]
        idle = np.where(fleet[:, c.BATCH] > 0, STATES.index("busy"), STATES.index("idle"))
        state = np.where(
            status == c.ACTIVE, idle, np.where(status == c.DRAINING, STATES.index("draining"), 0)
        )
        keys = list(zip(fleet[:, c.OF_MODEL].tolist(), fleet[:, c.TAG].tolist(), strict=True))
        group = [self._groups.index(key) if key in self._groups else 0 for key in keys]
        levels = np.concatenate(
            [levels_of(shares), np.stack([np.array(group), state], axis=1).astype(np.uint8)], axis=1
        )
        levels[~self._alive()] = ABSENT
        return levels[:, None, :]

    def _started(self) -> tuple[Move, ...]:
        """Instances that were ordered since the last look."""
        run = self._cluster.run
        fresh = self._alive() & (run.figure[:, c.ORDERED_AT] >= max(self._looked, 1e-9))
        return tuple(
            Move(f"instance {run.fleet[row, c.NUMBER]}", OUTSIDE, int(row)) for row in np.flatnonzero(fresh)
        )
