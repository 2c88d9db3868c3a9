"""Agents that learn nothing, to hold others against: a controller of the world, and chance."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from proreus.kernels.arrays import F32
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.inference.policies.rules.controller import Controller

if TYPE_CHECKING:
    from proreus.worlds.inference.document.action import RLActionExecutor
    from proreus.worlds.inference.document.simulator import TraceRLSimulator

Action = tuple[float, float, float]


@dataclass
class Buffer:
    """What an agent has lived through since it was made."""

    states: list[F32] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)

    def add(self, state: F32, action: Action, reward: float) -> None:
        """One decision."""
        self.states.append(state)
        self.actions.append(action)
        self.rewards.append(reward)


def action_of(change: Scale, executor: RLActionExecutor) -> Action:
    """A change of the pools as the three numbers that the executor takes."""

    def share(count: int, step: int) -> float:
        return min(max(count / max(step, 1), -1.0), 1.0)

    return (
        share(change.prompt, executor.scale_step("prompt", change.prompt)),
        share(change.token, executor.scale_step("token", change.token)),
        share(change.migrate, executor.config.action_mig_step),
    )


class RuleAgent:
    """A controller of the world in the loop of the document."""

    def __init__(self, rule: Controller) -> None:
        self.buffer = Buffer()
        self._rule = rule

    def play(self, simulator: TraceRLSimulator, *, learn: bool) -> None:
        """One pass; there is nothing to learn."""
        del learn
        rule, state = self._rule.fresh(simulator.config.seed), simulator.observe()
        for _ in range(simulator.decisions):
            change = rule.decide(simulator.application.observation())
            action = action_of(change, simulator.action_executor)
            after, reward = simulator.step(action)
            self.buffer.add(state, action, reward)
            state = after


class RandomAgent:
    """Any action is as likely as any other."""

    def __init__(self, seed: int = 0) -> None:
        self.buffer = Buffer()
        self._draw = np.random.default_rng(seed)

    def play(self, simulator: TraceRLSimulator, *, learn: bool) -> None:
        """One pass; there is nothing to learn."""
        del learn
        state = simulator.observe()
        for _ in range(simulator.decisions):
            prompt, token, migrate = self._draw.uniform(-1.0, 1.0, 3).tolist()
            after, reward = simulator.step((prompt, token, migrate))
            self.buffer.add(state, (prompt, token, migrate), reward)
            state = after
