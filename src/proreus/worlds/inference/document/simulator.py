"""The decision loop of the document: every few seconds state, action, scaling, reward."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any, Protocol

from proreus.kernels.arrays import F32
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.document.action import RLActionExecutor
from proreus.worlds.inference.document.application import Application, twin_of
from proreus.worlds.inference.document.baselines import Buffer, RuleAgent
from proreus.worlds.inference.document.config import RLConfig
from proreus.worlds.inference.document.reward import IntervalReward, RLRewardCalculator
from proreus.worlds.inference.document.state import RLStateCollector
from proreus.worlds.inference.model.requests import RequestTrace
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.rules.controller import Controller
from proreus.worlds.inference.policies.steered_rule import first_rule
from proreus.worlds.inference.simulation.cluster import InferenceCluster

_LOG = logging.getLogger(__name__)
_OFTEN = 100
_NO_OP = (None, "no_op")


class Agent(Protocol):
    """Who scales: plays a simulator through, and may learn from it."""

    buffer: Buffer
    """What it has lived through."""

    def play(self, simulator: TraceRLSimulator, *, learn: bool) -> None:
        """All decisions of a pass."""
        ...


class TraceRLSimulator:
    """Plays a trace over a cluster that an agent scales, and lets the agent learn from it."""

    def __init__(  # noqa: PLR0913 - the document's own
        self,
        trace: RequestTrace,
        cluster: InferenceCluster,
        applications: Mapping[int, Application],
        router: str | None = None,
        arbiter: str | Controller | None = None,
        end_time: float = 86_400.0,
        *,
        rl_config: RLConfig | Mapping[str, Any] | None = None,
        agent: Agent | None = None,
    ) -> None:
        """`router`: a scheduler of the world, in place of the cluster's own. `arbiter`: a controller of the
        world, whose targets the agent shifts; None: `chiron`. "no_op": None."""
        if cluster.trace is not trace:
            raise UsageError("the cluster was made for another trace: applications_of(scenario, trace)")
        if router not in _NO_OP:
            cluster.route_by(str(router))
        self.cluster, self.applications = cluster, applications
        self.application = next(iter(applications.values()))
        self._arbiter = _controller(arbiter)
        self.action_executor = RLActionExecutor(self.application, rl_config)
        self.config = self.action_executor.config
        if not self.config.decision_interval <= end_time < math.inf:
            raise UsageError(f"end_time {end_time} leaves no decision, or never ends")
        self.end_time = end_time
        self.state_collector = RLStateCollector(applications, self.config.stack_size)
        self.reward_calculator = RLRewardCalculator(self.config.objectives)
        self.decision_step = 0
        self.rewards: list[IntervalReward] = []
        if agent is None:
            from proreus.worlds.inference.document.agent import (
                PPOAgent,
            )  # torch, which takes a second to load

            agent = PPOAgent(self.config)
        self.agent = agent

    def arbiter(self) -> Controller:
        """The rule whose targets an agent shifts, without memory."""
        return self._arbiter.fresh(self.config.seed)

    def twin(self) -> TraceRLSimulator:
        """Another simulator over the same requests, before the first has come: its arbiter decides alone."""
        return TraceRLSimulator(
            self.cluster.trace,
            (application := twin_of(self.application)).cluster,
            {0: application},
            arbiter=self._arbiter,
            end_time=self.end_time,
            rl_config=self.config,
            agent=RuleAgent(self._arbiter),
        )

    @property
    def decisions(self) -> int:
        return int(self.end_time / self.config.decision_interval)

    def run(self, *, learn: bool = True) -> None:
        """All decisions until the end; what is under way then is served to its end.

        `learn`: whether the agent may learn from the pass; else it shows what it knows.
        """
        self.agent.play(self, learn=learn)
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


def _controller(arbiter: str | Controller | None) -> Controller:
    if isinstance(arbiter, Controller):
        return arbiter
    if arbiter is None or arbiter in _NO_OP:
        return first_rule()
    if arbiter not in POLICIES.rules:
        raise unknown_name("arbiter", str(arbiter), [*POLICIES.rules, "no_op"])
    controller = POLICIES.make(arbiter)
    assert isinstance(controller, Controller)
    return controller
