"""PPO over numbered actions: for comparison, and for objectives of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proreus.contract.lanes import Arrays
from proreus.learning.evaluation import Judge
from proreus.learning.lane_ppo import LaneLessons, LanePPO
from proreus.learning.learner import GradientLearner
from proreus.learning.ppo import PPOConfig
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.networks.bidder import bidder_of
from proreus.worlds.inference.encoding.actions import SIZES, VERSION
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.chooser import Chooser
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.outcome import MEASURES
from proreus.worlds.inference.training.lanes import lanes_of


@dataclass(frozen=True)
class InferencePPOConfig(PPOConfig):
    """Settings of PPO over changes of pools."""

    steps: int = 50_000
    """Decisions to learn from, over all lanes."""
    hidden: int = 32
    """Width of the network's layers."""
    discount: float = 0.98
    """What a reward counts one decision later: a start is over after a dozen."""


def _network(tensors: Arrays) -> AnyPolicy:
    return Chooser("candidate", bidder_of("actor", tensors, SIZES))


def _played(scenario: InferenceScenario, seed: int, policy: AnyPolicy) -> Mapping[str, float]:
    return play(scenario, scenario.load(seed), policy, seed).measures


_PPO: LanePPO[InferenceScenario, AnyPolicy] = LanePPO(
    SIZES, lanes_of, _network, Judge(_played, POLICIES.make, MEASURES)
)
PPO = GradientLearner(
    world="inference",
    algorithm="ppo",
    configs=(InferencePPOConfig(), LaneLessons(lanes=4, validation_runs=3, confirm_runs=6)),
    kind="actor",
    encoding=VERSION,
    gain="fewer weighed GPU-hours than the best rule",
    about="a network that scores every change of the pools",
    example="--scenarios steady --steps 50000 --out runs/inference-ppo",
    needs="torch",
    not_on_ray="learns in one process",
    start=_PPO.start,
    train=_PPO.train,
    judge=_PPO.judge,
    confirm=_PPO.confirm,
    tells=("return", "loss", "entropy"),
)
