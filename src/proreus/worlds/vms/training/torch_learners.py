"""The learners of the world `vms` that need torch: QMIX, PPO and DQN, all over rows.

They learn from the same runs and are judged in the same way; what they learn plays as a policy that bids
(`policies.networks.bidder`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from torch import nn

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.ddqn import DDQNConfig, ddqn
from proreus.learning.learner import Configs, GradientLearner
from proreus.learning.learner_state import (
    check_device,
    check_memory,
    first_network,
    weights_of,
)
from proreus.learning.ppo import PPOConfig, ppo, updates_of
from proreus.learning.qmix import QMIXConfig, qmix
from proreus.learning.step import Update
from proreus.learning.tensor_ppo import TensorPPOLearner
from proreus.model.errors import WorkError
from proreus.policies.networks.bidder import bidder_of
from proreus.policies.networks.q_network import QNetwork
from proreus.policies.networks.row_networks import ActorCritic, QMIXNetwork
from proreus.workers.processes import Workers
from proreus.worlds.vms.encoding.rows import VERSION
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.policies.columns import BIDDING
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.scenarios import VmScenario
from proreus.worlds.vms.training.device.lanes import VmDeviceLanes
from proreus.worlds.vms.training.evaluation import VmsLaneLessons, VmsLessons, school_of
from proreus.worlds.vms.training.lanes import VmRowLanes
from proreus.worlds.vms.training.training_trace import the_one


@dataclass(frozen=True)
class VmsDDQNConfig(DDQNConfig):
    """Settings of double dueling DQN over servers."""

    steps: int = 150_000
    """Decisions to learn from, in all."""
    n_step: int = 32
    """Rewards that are summed before the network's own estimate takes over."""
    batch_size: int = 128
    """Transitions per update."""
    capacity: int = 100_000
    """Transitions that are remembered; each holds two observations (5 servers: 1 kB)."""
    warm_up: int = 1_000
    """Decisions before the first update."""
    update_every: int = 8
    """Decisions per update."""


@dataclass(frozen=True)
class VmsPPOConfig(PPOConfig):
    """Settings of PPO over servers."""

    worlds: Literal["auto", "host", "device"] = "auto"
    """Where the runs play: on the host, or in torch on the network's device. auto: with the network on a GPU,
    else on the host."""


def _ppo(config: VmsPPOConfig, lanes: VmRowLanes, saved: Arrays | None) -> Iterator[Update]:
    """PPO over runs on the host or on the device."""
    match config.worlds:
        case "host":
            there = False
        case "device":
            there = True
        case "auto":
            there = config.device.startswith("cuda")
        case unknown:
            assert_never(unknown)
    if not there:
        yield from ppo(config, lanes, saved)
        return
    learner = TensorPPOLearner(config, VmDeviceLanes(lanes, config.device))
    yield from updates_of(learner, config, len(lanes), saved)


def _learner(
    names: tuple[str, str, str],
    configs: Configs,
    network: Callable[[int, int, int], nn.Module],
    learn: Callable[..., Iterator[Update]],
) -> GradientLearner:
    """One of the three: (algorithm, kind of policy, about); `learn` takes a config, lanes, a saved state."""
    algorithm, kind, about = names

    def train(
        scenarios: Sequence[VmScenario], asked: Configs, workers: Workers, saved: Arrays | None
    ) -> Iterator[Update]:
        del workers  # these networks are small: the lanes play in one thread
        config, lessons = asked
        scenario = the_one(scenarios)
        check_device(algorithm, config.device)
        if hasattr(config, "capacity"):
            servers = scenario.options.server_count
            observation = 4 * (2 * servers * SIZES[0] + SIZES[1]) + 2 * servers
            check_memory(algorithm, config.capacity, observation, f"{servers:,} servers")
        count = lessons.lanes if isinstance(lessons, VmsLaneLessons) else 1
        yield from learn(config, school_of(scenario, lessons).lanes(count), saved)

    def start(scenarios: Sequence[VmScenario], asked: Configs) -> Arrays:
        return weights_of(first_network(network, asked[0], SIZES))

    def policy_of(tensors: Arrays) -> VmRulePolicy:
        try:
            return VmRulePolicy("candidate", BIDDING, bidder=bidder_of(kind, tensors, SIZES))
        except ValueError as error:
            raise WorkError(f"{algorithm}: {error}; a lower learning rate may help") from error

    def judge(scenarios: Sequence[VmScenario], asked: Configs, tensors: Arrays) -> dict[str, float]:
        scenario = the_one(scenarios)
        return {scenario.name: school_of(scenario, asked[-1]).gain(policy_of(tensors))}

    def confirm(scenarios: Sequence[VmScenario], asked: Configs, tensors: Arrays) -> dict[str, F64]:
        scenario = the_one(scenarios)
        return {scenario.name: school_of(scenario, asked[-1]).confirmed_gains(policy_of(tensors))}

    explores = "entropy" if algorithm == "ppo" else "epsilon"
    return GradientLearner(
        world="vms",
        algorithm=algorithm,
        configs=configs,
        kind=kind,
        encoding=VERSION,
        gain="% better than the best rule",
        about=about,
        example=f"--scenario recovering@5 --out runs/{algorithm}",
        needs="torch",
        not_on_ray="learns in one process; es spreads over Ray",
        start=start,
        train=train,
        judge=judge,
        confirm=confirm,
        tells=("return", "loss", explores),
    )


QMIX = _learner(
    ("qmix", "agents", "servers as agents that bid, and a mixer of their values"),
    (QMIXConfig(), VmsLaneLessons()),
    QMIXNetwork,
    qmix,
)
# It scales what it learns from by itself, and was seen to learn more steadily from the scenario's reward.
PPO = _learner(
    ("ppo", "actor", "a network that bids"),
    (VmsPPOConfig(), VmsLaneLessons(ending_cost=0.0)),
    ActorCritic,
    _ppo,
)
DDQN = _learner(
    ("ddqn", "q", "a network that values every place"), (VmsDDQNConfig(), VmsLessons()), QNetwork, ddqn
)
