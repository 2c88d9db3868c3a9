"""What `proreus tune pods` trains: a linear scorer, from the shipped one on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace

from proreus.kernels.arrays import F64
from proreus.learning.specialist import Specialist
from proreus.policies.catalogue import LEARNED
from proreus.worlds.pods.play import warm_up
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.training.goal import ESConfig, PodsGoal, starting_point
from proreus.worlds.pods.training.judge import compiled_workload
from proreus.worlds.pods.training.learners import ES


def learned_start(scenario: PodScenario, config: ESConfig) -> F64:
    """The shipped weights as they stand for this work: where a specialist begins."""
    work = compiled_workload(scenario.of_part("train"), 0)
    return starting_point(replace(config, start=LEARNED), work)


def _goal(scenarios: Sequence[PodScenario], config: ESConfig, pool: Executor) -> PodsGoal:
    warm_up()  # before worker processes want them all at one time
    return PodsGoal(config, scenarios, pool, learned_start(scenarios[0], config))


SPECIALIST = Specialist(
    learner=replace(ES, goal=_goal, configs=(ESConfig(generations=100_000, sigma=0.1),)),
    measure="gpu_allocation_peak",
)
