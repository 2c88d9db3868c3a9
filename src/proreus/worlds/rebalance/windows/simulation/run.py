"""A run over windows, decision by decision: migrations until the policy stops, then the window is served."""

from __future__ import annotations

import numpy as np

from proreus.contract.replay import Move, Stage, levels_of
from proreus.contract.simulation import Look, Outcome
from proreus.kernels.arrays import F64
from proreus.model.errors import IllegalDecision
from proreus.worlds.rebalance.decision import Migrate, Migration, Stop
from proreus.worlds.rebalance.windows.model import WINDOW
from proreus.worlds.rebalance.windows.simulation.columns import HIT, MOVES, OUTCOMES, OVER_REQUESTS, REQUESTS
from proreus.worlds.rebalance.windows.simulation.outcome import outcome_of
from proreus.worlds.rebalance.windows.simulation.screen import node_lines
from proreus.worlds.rebalance.windows.simulation.world import DeployWorld
from proreus.worlds.rebalance.windows.state import LAST, WindowObservation


class WindowSimulation:
    """Windows [first, last) of a deployment, every pod where it stood at the start."""

    def __init__(self, world: DeployWorld, part: tuple[int, int]) -> None:
        self.world, self._first = world.sibling(), part[0]
        self.world.begin(*part)
        self._outcomes: list[F64] = []
        self._moves: list[tuple[int, int, int]] = []
        self._served: list[tuple[int, int, int]] | None = []
        """(pod, from, to) of the window that was served last; None while pods are moved."""

    def next_decision(self) -> WindowObservation | None:
        """The pods as they stand; None when every window is served."""
        if self.world.over:
            return None
        names = self.world.windows.deployment
        return WindowObservation(self.world.hosting, self.world.window, names.node_names, names.pod_names)

    def apply(self, decision: Migration | int, /) -> float:
        """Move a pod, or stop and serve the window; minus what it cost."""
        match self._meant(decision):
            case Migrate(unit=pod, target=node):
                where = self.world.hosting.where.copy()
                reward = self.world.move(pod, node)
                self._served = None
                self._moves.append((pod, int(where[pod]), node))
                return reward
            case Stop():
                reward = self.world.stop()
                self._outcomes.append(self.world.outcome())
                self._served, self._moves = self._moves, []
                return reward

    def _meant(self, decision: Migration | int) -> Migration:
        if isinstance(decision, Migrate | Stop):
            return decision
        if not isinstance(decision, int | np.integer):
            raise IllegalDecision(f"{decision!r} is neither Migrate nor Stop nor the number of a move")
        nodes, pods = self.world.hosting.pods.size, self.world.hosting.where.size
        if not 0 <= decision <= pods * nodes:
            raise IllegalDecision(f"action {decision} is outside 0..{pods * nodes}")
        return Stop() if decision == pods * nodes else Migrate(*divmod(int(decision), nodes))

    def subject(self) -> str:
        """The window that is served next."""
        return str(self.world.window)

    def outcomes(self) -> F64:
        """[windows, OUTCOMES] of those that are served."""
        return np.array(self._outcomes).reshape(-1, OUTCOMES)

    def outcome(self) -> Outcome:
        """What the windows so far have come to."""
        return outcome_of(self.outcomes(), self.world, self._first)

    def screen(self) -> list[str]:
        """The nodes once a window is served, with what moved before it."""
        if self._served is None:
            return []
        names = self.world.windows.deployment
        moved = [
            f"{names.pod_names[pod]} {names.node_names[source]} → {names.node_names[target]}"
            for pod, source, target in self._served
        ]
        head = "before the first window"
        if self._outcomes:
            head = f"window {self.world.window - 1:,}: {', '.join(moved) or 'no pod moved'}"
        return [head, *node_lines(self.world, {pod for pod, _, _ in self._served})]

    def stage(self) -> Stage:
        """Nodes with what was asked of them in the last window."""
        return Stage(
            "node",
            self.world.windows.deployment.node_names,
            ("CPU asked for", "memory asked for"),
            limit=self.world.options.threshold,
            idle="no pod moved",
        )

    def look(self) -> Look | None:
        """The nodes once a window is served."""
        if self._served is None:
            return None
        use = self.world.hosting.load[LAST] / self.world.hosting.capacity
        served, series = len(self._outcomes), {}
        if served:
            last = self._outcomes[-1]
            requests = max(float(last[REQUESTS]), 1.0)
            series = {
                "violations": 100.0 * float(last[OVER_REQUESTS]) / requests,
                "hit": 100.0 * float(last[HIT]) / requests,
                "migrations": float(sum(row[MOVES] for row in self._outcomes)),
                "fullest": 100.0 * float(use.max()),
            }
        pods = self.world.windows.deployment.pod_names
        moves = tuple(Move(pods[pod], source, target) for pod, source, target in self._served)
        self._served = None
        return Look(served * WINDOW, served, series, use.max(axis=1), levels_of(use)[:, None, :], moves)

    def told(self, before: Look | None, now: Look) -> str:
        """Which windows were served since the moment before."""
        if before is None:
            return f"before window {self._first:,}"
        first, last = self._first + before.count, self._first + now.count - 1
        return f"window {last:,}" if first == last else f"windows {first:,} to {last:,}"

    def facts(self) -> tuple[str, ...]:
        """Nodes, pods and windows."""
        names = self.world.windows.deployment
        sizes = (f"{len(names.node_names):,} nodes", f"{len(names.pod_names):,} pods")
        return *sizes, f"{len(self._outcomes):,} windows"
