"""The agent of the document's loop: the PPO that learns in every world, over actions in steps.

The learner asks for one lane of decisions; here that lane is a `TraceRLSimulator`. One pass over a trace is
one rollout and one update. An agent that is given to the next simulator goes on with what it has learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import F32, I64
from proreus.learning.ppo import PPOConfig, PPOLearner
from proreus.model.errors import WorkError
from proreus.worlds.inference.document.config import RLConfig

if TYPE_CHECKING:
    from proreus.worlds.inference.document.simulator import TraceRLSimulator

Action = tuple[float, float, float]
_SCALES = (-1.0, -0.4, -0.2, 0.0, 0.2, 0.4, 1.0)
_MIGRATIONS = (-1.0, -1 / 3, 0.0, 1 / 3, 1.0)
_ACTIONS: tuple[Action, ...] = tuple(
    (prompt, token, migrate) for prompt in _SCALES for token in _SCALES for migrate in _MIGRATIONS
)
"""With a step of 5 instances: none, 1, 2 or 5 more or fewer; with one of 3: none, 1 or 3 migrated."""


@dataclass
class Buffer:
    """What the agent has lived through since it was made."""

    states: list[F32] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)


class PPOAgent:
    """Chooses actions, and learns from a pass over a trace when it is over."""

    def __init__(self, config: RLConfig, decisions: int, ppo: PPOConfig | None = None) -> None:
        self.buffer = Buffer()
        self._decisions = decisions
        self._ppo = ppo or PPOConfig(
            steps=1_000 * decisions, rollout_steps=decisions, minibatches=4, seed=config.seed
        )
        self._learner: PPOLearner | None = None
        self._lane = _Lane(self.buffer)
        self.figures: dict[str, float] = {}
        """What the last update came to: return, loss, entropy, KL."""

    def play(self, simulator: TraceRLSimulator) -> None:
        """One pass: all decisions of the simulator, then an update."""
        if simulator.decisions != self._decisions:
            raise WorkError(f"the agent learns from {self._decisions} decisions, not {simulator.decisions}")
        self._lane.simulator = simulator
        if self._learner is None:
            self._learner = PPOLearner(self._ppo, self._lane)
        else:
            self._lane.begin()
            self._learner.restore(self._learner.capture())  # with the decision that the lane has at hand now
        self.figures = self._learner.update()


class _Lane:
    """A simulator as the learner sees it: one lane, whose episode is a pass."""

    encoding = "document-004/1"

    def __init__(self, buffer: Buffer) -> None:
        self._buffer = buffer
        self.simulator: TraceRLSimulator | None = None
        self._rows = np.array([_ACTIONS], dtype=np.float32)
        self._state: F32 = np.zeros(0, dtype=np.float32)

    def __len__(self) -> int:
        return 1

    def begin(self) -> Choices:
        """The first decision of the simulator."""
        assert self.simulator is not None
        self._state = self.simulator.observe()
        return self._choices()

    def reset(self, seed: int) -> Choices:
        """The simulator has its own seed."""
        return self.begin()

    def _choices(self) -> Choices:
        return Choices(self._rows, self._state[None, :], np.ones((1, len(_ACTIONS)), dtype=np.bool_))

    def step(self, chosen: I64) -> Steps:
        """Carry out an action; the last one of a pass ends the episode."""
        assert self.simulator is not None
        action = _ACTIONS[int(chosen[0])]
        self._buffer.states.append(self._state)
        self._buffer.actions.append(action)
        self._state, reward = self.simulator.step(action)
        self._buffer.rewards.append(reward)
        rewards = np.array([reward])
        ended = np.array([self.simulator.decision_step >= self.simulator.decisions])
        return Steps(self._choices(), rewards, ended, rewards)

    def capture(self) -> Arrays:
        """A pass is played to its end: between two there is nothing to keep."""
        return {}

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """The decision at hand."""
        return self._choices()
