"""PPO over the same rows: for comparison, and where rewards of single decisions say enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proreus.learning.evaluation import Judge
from proreus.learning.lane_ppo import LaneLessons, LanePPO
from proreus.learning.learner import GradientLearner
from proreus.learning.ppo import PPOConfig
from proreus.worlds.workflows.encoding.rows import SIZES, VERSION
from proreus.worlds.workflows.play import play
from proreus.worlds.workflows.policies.catalogue import rule_policy
from proreus.worlds.workflows.policies.policy import WorkflowsRulePolicy
from proreus.worlds.workflows.scenarios import WorkflowsScenario
from proreus.worlds.workflows.simulation.outcome import MEASURES
from proreus.worlds.workflows.training.goal import network_policy
from proreus.worlds.workflows.training.lanes import lanes_of


@dataclass(frozen=True)
class WorkflowsPPOConfig(PPOConfig):
    """Settings of PPO over placements."""

    steps: int = 200_000
    """Decisions to learn from, over all lanes."""
    hidden: int = 32
    """Width of the network's layers."""
    discount: float = 0.998
    """What a dollar counts one decision later: a workflow has a hundred of them."""


def _played(scenario: WorkflowsScenario, seed: int, policy: WorkflowsRulePolicy) -> Mapping[str, float]:
    return play(scenario, scenario.load(seed), policy, seed).measures


_PPO: LanePPO[WorkflowsScenario, WorkflowsRulePolicy] = LanePPO(
    SIZES, lanes_of, network_policy, Judge(_played, rule_policy, MEASURES)
)
PPO = GradientLearner(
    world="workflows",
    algorithm="ppo",
    configs=(WorkflowsPPOConfig(), LaneLessons()),
    kind="actor",
    encoding=VERSION,
    gain="less than the best rule, in the measure's unit",
    about="a network that bids",
    example="--scenarios busy@10 --steps 200000 --out runs/workflows-ppo",
    needs="torch",
    not_on_ray="learns in one process",
    start=_PPO.start,
    train=_PPO.train,
    judge=_PPO.judge,
    confirm=_PPO.confirm,
    tells=("return", "loss", "entropy"),
)
