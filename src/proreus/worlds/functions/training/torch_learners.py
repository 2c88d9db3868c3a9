"""PPO over the same rows: for comparison, and where rewards of single decisions say enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from proreus.learning.evaluation import Judge
from proreus.learning.lane_ppo import LaneLessons, LanePPO
from proreus.learning.learner import GradientLearner
from proreus.learning.ppo import PPOConfig
from proreus.worlds.functions.encoding.rows import SIZES, VERSION
from proreus.worlds.functions.play import play
from proreus.worlds.functions.policies.catalogue import network_policy, rule_policy
from proreus.worlds.functions.policies.policy import FunctionsRulePolicy
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.simulation.outcome import MEASURES
from proreus.worlds.functions.training.lanes import lanes_of


@dataclass(frozen=True)
class FunctionsPPOConfig(PPOConfig):
    """Settings of PPO over placements."""

    steps: int = 200_000
    """Decisions to learn from, over all lanes."""
    hidden: int = 32
    """Width of the network's layers."""
    discount: float = 0.99
    """What a reward counts one decision later."""


def _played(scenario: FunctionsScenario, seed: int, policy: FunctionsRulePolicy) -> Mapping[str, float]:
    return play(scenario, scenario.load(seed), policy, seed).measures


_PPO: LanePPO[FunctionsScenario, FunctionsRulePolicy] = LanePPO(
    SIZES, lanes_of, partial(network_policy, "candidate"), Judge(_played, rule_policy, MEASURES)
)
PPO = GradientLearner(
    world="functions",
    algorithm="ppo",
    configs=(FunctionsPPOConfig(), LaneLessons(lanes=32)),
    kind="actor",
    encoding=VERSION,
    gain="less than the best rule, in the measure's unit",
    about="a network that bids",
    example="--scenarios busy@60 --steps 200000 --out runs/functions-ppo",
    needs="torch",
    not_on_ray="learns in one process",
    start=_PPO.start,
    train=_PPO.train,
    judge=_PPO.judge,
    confirm=_PPO.confirm,
    tells=("return", "loss", "entropy"),
)
