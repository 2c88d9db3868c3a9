"""What `proreus tune pods` trains: a linear scorer, from the shipped one on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from proreus.kernels.arrays import F64
from proreus.learning.specialist import Specialist
from proreus.policies.checkpoint import load_checkpoint
from proreus.worlds.pods.encoding.pair import VERSION
from proreus.worlds.pods.play import warm_up
from proreus.worlds.pods.policies.learned import PRETRAINED, linear_scorer
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.training.goal import ESConfig, PodsGoal
from proreus.worlds.pods.training.judge import compiled_workload
from proreus.worlds.pods.training.learners import ES

_SHIPPED = PRETRAINED / "pods"


def learned_start(scenario: PodScenario, config: ESConfig) -> F64:
    """The shipped weights as they stand for this work: where a specialist begins."""
    scorer = linear_scorer(load_checkpoint(_SHIPPED, VERSION), _SHIPPED)
    weights = scorer.weights_for(compiled_workload(scenario.of_part("train"), 0))
    extra = scorer.by_demand.size if config.by_demand else 0
    return np.concatenate([weights.ravel(), np.zeros(extra)])


def _goal(scenarios: Sequence[PodScenario], config: ESConfig, pool: Executor) -> PodsGoal:
    warm_up()  # before worker processes want them all at one time
    return PodsGoal(config, scenarios, pool, learned_start(scenarios[0], config))


SPECIALIST = Specialist(
    learner=replace(ES, goal=_goal, configs=(ESConfig(generations=100_000, sigma=0.1),)),
    measure="gpu_allocation_peak",
)
