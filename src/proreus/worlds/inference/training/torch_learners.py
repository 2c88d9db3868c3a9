"""PPO that begins at a rule and learns when to hold more or fewer instances than the rule wants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from proreus.contract.lanes import Arrays
from proreus.learning.evaluation import Judge
from proreus.learning.initial_weights import preferring
from proreus.learning.lane_ppo import LaneLessons, LanePPO
from proreus.learning.learner import Configs, GradientLearner
from proreus.learning.ppo import PPOConfig
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.networks.bidder import bidder_of
from proreus.worlds.inference.encoding.residual import KEEPS, SIZES, VERSION
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.steered_rule import Residual, first_rule
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.outcome import MEASURES
from proreus.worlds.inference.training.lanes import steered_lanes_of


@dataclass(frozen=True)
class InferencePPOConfig(PPOConfig):
    """Settings of PPO over shifts of a rule."""

    steps: int = 60_000
    """Decisions to learn from, over all lanes."""
    rollout_steps: int = 60
    """Decisions of each lane per update."""
    hidden: int = 32
    """Width of the network's layers."""
    learning_rate: float = 1e-3
    """Of Adam, at the start; it falls linearly to a tenth."""
    discount: float = 0.97
    """What a reward counts one decision later: a start is over after a dozen."""
    entropy: float = 0.002
    """Weight of the entropy bonus at the start; it falls linearly to zero."""
    keep_logit: float = 3.0
    """By how much keeping the offsets is preferred at first: 3 keeps them in seven of ten decisions."""


def _initial(configs: Configs) -> Arrays:
    return preferring(configs[0], SIZES, KEEPS, configs[0].keep_logit)


def _network(tensors: Arrays) -> AnyPolicy:
    return Residual("candidate", first_rule(), bidder_of("actor", tensors, SIZES))


def _played(scenario: InferenceScenario, seed: int, policy: AnyPolicy) -> Mapping[str, float]:
    return play(scenario, scenario.load(seed), policy, seed).measures


_PPO: LanePPO[InferenceScenario, AnyPolicy] = LanePPO(
    SIZES, steered_lanes_of, _network, Judge(_played, POLICIES.make, MEASURES), _initial
)
PPO = GradientLearner(
    world="inference",
    algorithm="ppo",
    configs=(
        InferencePPOConfig(),
        LaneLessons(lanes=32, validation_runs=10, confirm_runs=30, evaluate_every=4),
    ),
    kind="actor",
    encoding=VERSION,
    gain="fewer weighed GPU-hours than the best rule",
    about="a network that shifts the targets of a rule, from the rule on",
    example="--scenarios steady --steps 60000 --out runs/inference-ppo",
    needs="torch",
    not_on_ray="learns in one process",
    start=_PPO.start,
    train=_PPO.train,
    judge=_PPO.judge,
    confirm=_PPO.confirm,
    tells=("return", "loss", "entropy"),
)
