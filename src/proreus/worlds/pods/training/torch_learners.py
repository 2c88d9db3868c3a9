"""The learner of pods that needs torch: double dueling DQN over the choices and rewards of lanes.

The saved state holds the networks, the optimiser, the replay memory and the seed and actions of the current
episode, which is played again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

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
from proreus.learning.step import Update
from proreus.policies.networks.q_network import QNetwork, network_of
from proreus.workers.processes import Workers
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import CPU_LEFT, FGD_SCORE, ORDER, PAIR_FEATURES, VERSION
from proreus.worlds.pods.policies.q_policy import BiddingQPolicy
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions, EpisodeLane
from proreus.worlds.pods.training.evaluation import Lessons, confirmed_gains, gains, training_workloads

_SIZES = (len(PAIR_FEATURES), len(CONTEXT_FEATURES))
_IN_ORDER = 0.005  # among nodes that the rule holds equal, the first: FGD's scores are a hundredth apart
_IN_ORDER_HARDLY = 1e-5  # shares of CPU may be as near as that
_SHARPNESS = 0.1  # what a node that the rule prefers is worth more: about what placing a pod is


@dataclass(frozen=True)
class DDQNLessons(Lessons):
    """What DDQN trains on, from where, and how it is judged."""

    BEFORE: ClassVar[Mapping[str, Any]] = {**Lessons.BEFORE, "start": "random"}

    start: Literal["rule", "random"] = "rule"
    """Start from the strongest rule (one unit of each layer carries its score, the rest learn the rest)."""


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
    yield from ddqn(config, EpisodeLane(batch), saved, _start(scenarios, configs))


def _judge(scenarios: Sequence[PodScenario], configs: Configs, tensors: Arrays) -> dict[str, float]:
    make = partial(BiddingQPolicy, "candidate", network_of(tensors, _SIZES))
    return gains(make, scenarios, configs[-1])


def _confirm(scenarios: Sequence[PodScenario], configs: Configs, tensors: Arrays) -> dict[str, F64]:
    make = partial(BiddingQPolicy, "candidate", network_of(tensors, _SIZES))
    return confirmed_gains(make, scenarios, configs[-1])


def _start(scenarios: Sequence[PodScenario], configs: Configs) -> Arrays:
    config, lessons = configs
    drawn = weights_of(first_network(QNetwork, config, _SIZES))
    return rule_values(drawn, gpus="fgd" in scenarios[0].yardstick()[1]) if lessons.start == "rule" else drawn


def rule_values(drawn: Arrays, *, gpus: bool) -> Arrays:
    """Weights by which the most valued node is the one of a rule: FGD with GPUs, else best fit.

    Unit 0 of each layer hands the rule's score on as it is, and it alone bids; what the other units make of
    what they see is learned. Nobody draws or adds anything else, so that the start plays as the rule does.
    """
    rule_values = {name: array.copy() for name, array in drawn.items()}
    node, bias = rule_values["of_node.weight"], rule_values["of_node.bias"]
    node[0], bias[0], rule_values["of_context.weight"][0] = 0.0, 0.0, 0.0
    if gpus:
        node[0, FGD_SCORE], node[0, ORDER] = 1.0, _IN_ORDER
    else:
        node[0, CPU_LEFT], bias[0] = -1.0, 1.0  # what is left is at most the largest node
        node[0, ORDER] = _IN_ORDER_HARDLY
    for layer in ("deeper", "bid_of_node"):
        rule_values[f"{layer}.weight"][0], rule_values[f"{layer}.bias"][0] = 0.0, 0.0
        rule_values[f"{layer}.weight"][0, 0] = 1.0
    rule_values["bid_of_summary.weight"][0] = 0.0
    rule_values["bid.weight"][:], rule_values["bid.bias"][:] = 0.0, 0.0
    rule_values["bid.weight"][0, 0] = _SHARPNESS
    return rule_values


DDQN = GradientLearner(
    world="pods",
    algorithm="ddqn",
    configs=(DDQNConfig(discount=1.0, n_step=20), DDQNLessons()),
    kind="q",
    encoding=VERSION,
    gain="gain over the strongest rule",
    about="a network that values every action, from the strongest rule on",
    example="--scenarios gpu@7 --steps 30000 --out runs/q",
    needs="torch",
    not_on_ray="learns decision by decision in one process; es and ppo spread over Ray",
    start=_start,
    train=_train,
    judge=_judge,
    confirm=_confirm,
    tells=("return", "loss", "epsilon"),
)
