"""The learner of pods that needs torch: double dueling DQN over the choices and rewards of lanes.

The saved state holds the networks, the optimiser, the replay memory and the seed and actions of the current
episode, which is played again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

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
from proreus.learning.update import Update
from proreus.policies.networks.q import QNetwork, network_of
from proreus.workers.processes import Workers
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, VERSION
from proreus.worlds.pods.policies.q_policy import BiddingQPolicy
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.training.judge import Lessons, confirmed_gains, gains, training_workloads
from proreus.worlds.pods.training.lanes import BatchedPods, BatchOptions, EpisodeLane

_SIZES = (len(PAIR_FEATURES), len(CONTEXT_FEATURES))


def _train(
    scenarios: Sequence[PodScenario], configs: Configs, workers: Workers, saved: Arrays | None
) -> Iterator[Update]:
    del workers
    config, lessons = configs
    check_device("ddqn", config.device)
    workloads = training_workloads(scenarios, lessons)
    options = BatchOptions(world=scenarios[0].options)
    batch = BatchedPods(workloads, len(workloads), 0, lessons.horizon, lessons.reward, options)
    observation = 4 * (batch.nodes * _SIZES[0] + _SIZES[1]) + 2 * batch.nodes + 2
    check_memory("ddqn", config.capacity, observation, f"{batch.nodes:,} nodes")
    yield from ddqn(config, EpisodeLane(batch), saved)


def _judge(scenarios: Sequence[PodScenario], configs: Configs, tensors: Arrays) -> dict[str, float]:
    make = partial(BiddingQPolicy, "candidate", network_of(tensors, _SIZES))
    return gains(make, scenarios, configs[-1])


def _confirm(scenarios: Sequence[PodScenario], configs: Configs, tensors: Arrays) -> dict[str, F64]:
    make = partial(BiddingQPolicy, "candidate", network_of(tensors, _SIZES))
    return confirmed_gains(make, scenarios, configs[-1])


def _start(scenarios: Sequence[PodScenario], configs: Configs) -> Arrays:
    return weights_of(first_network(QNetwork, configs[0], _SIZES))


DDQN = GradientLearner(
    world="pods",
    algorithm="ddqn",
    configs=(DDQNConfig(), Lessons()),
    kind="q",
    encoding=VERSION,
    gain="gain over the strongest rule",
    about="a network that values every action",
    example="--scenarios gpu@7 --steps 30000 --out runs/q",
    needs="torch",
    not_on_ray="learns decision by decision in one process; es and ppo spread over Ray",
    start=_start,
    train=_train,
    judge=_judge,
    confirm=_confirm,
    tells=("return", "loss", "epsilon"),
)
