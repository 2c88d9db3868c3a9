"""The decision loop of the document: every few seconds state, action, scaling, reward."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from proreus.kernels.arrays import F32
from proreus.model.errors import UsageError
from proreus.worlds.inference.document.action import RLActionExecutor
from proreus.worlds.inference.document.application import Application
from proreus.worlds.inference.document.config import RLConfig, config_of
from proreus.worlds.inference.document.reward import IntervalReward, RLRewardCalculator
from proreus.worlds.inference.document.state import RLStateCollector
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.simulation.cluster import InferenceCluster

if TYPE_CHECKING:
    from proreus.worlds.inference.document.agent import PPOAgent

_LOG = logging.getLogger(__name__)
_OFTEN = 100
_NO_OP = (None, "no_op")


class TraceRLSimulator:
    """Plays a trace over a cluster that an agent scales, and lets the agent learn from it."""

    def __init__(  # noqa: PLR0913 - the document's own
        self,
        trace: RequestTrace,
        cluster: InferenceCluster,
        applications: Mapping[int, Application],
        router: str | None = None,
        arbiter: str | None = None,
        end_time: float = 86_400.0,
        *,
        rl_config: RLConfig | Mapping[str, Any] | None = None,
        agent: PPOAgent | None = None,
    ) -> None:
        if cluster.trace is not trace:
            raise UsageError("the cluster was made for another trace: applications_of(scenario, trace)")
        if router not in _NO_OP or arbiter not in _NO_OP:
            raise UsageError("router and arbiter do nothing in the original: None or 'no_op'")
        self.cluster, self.applications = cluster, applications
        self.application = next(iter(applications.values()))
        self.config = config_of(rl_config)
        if not self.config.decision_interval <= end_time < math.inf:
            raise UsageError(f"end_time {end_time} leaves no decision, or never ends")
        self.end_time = end_time
        self.action_executor = RLActionExecutor(self.application, self.config)
        self.state_collector = RLStateCollector(applications, self.config.stack_size)
        self.reward_calculator = RLRewardCalculator(self.config.objectives)
        self.decision_step = 0
        self.rewards: list[IntervalReward] = []
        if agent is None:
            from proreus.worlds.inference.document.agent import (
                PPOAgent,
            )  # torch, which takes a second to load

            agent = PPOAgent(self.config, self.decisions)
        self.agent = agent

    @property
    def decisions(self) -> int:
        return int(self.end_time / self.config.decision_interval)

    def run(self) -> None:
        """All decisions until the end; what is under way then is served to its end."""
        self.agent.play(self)
        self.cluster.advance()
        self.application.scaling_manager.notice()

    def observe(self) -> F32:
        """Let an interval pass; the state at its end."""
        self.cluster.advance((self.decision_step + 1) * self.config.decision_interval)
        self.application.scaling_manager.notice()
        return self.state_collector.get_state()

    def step(self, action: tuple[float, float, float]) -> tuple[F32, float]:
        """Carry an action out and let an interval pass: (state, reward)."""
        self.action_executor.execute(action)
        self.decision_step += 1
        state = self.observe()
        seen = self.state_collector.last
        assert seen is not None
        reward = self.reward_calculator.calculate_reward(seen)
        self.rewards.append(reward)
        if self.decision_step % _OFTEN == 0:
            _LOG.info(
                "Step: %d | Reward: %.4f | Active Instances: %d",
                self.decision_step,
                reward.total,
                sum(seen.instances),
            )
        return state, reward.total
