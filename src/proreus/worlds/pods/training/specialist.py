"""What `proreus tune pods` trains: a linear scorer, from the shipped one on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace

from proreus.learning.specialist import Specialist
from proreus.policies.catalogue import LEARNED
from proreus.worlds.pods.play import warm_up
from proreus.worlds.pods.scenarios import PodScenario
from proreus.worlds.pods.training.goal import ESConfig, PodsGoal
from proreus.worlds.pods.training.learners import ES


def _goal(scenarios: Sequence[PodScenario], config: ESConfig, pool: Executor) -> PodsGoal:
    warm_up()  # before worker processes want them all at one time
    # The shipped weights as they stand for this work are where a specialist begins.
    return PodsGoal(replace(config, start=LEARNED), scenarios, pool)


SPECIALIST = Specialist(
    learner=replace(ES, goal=_goal, configs=(ESConfig(generations=100_000, sigma=0.1),)),
    measure="gpu_allocation_peak",
    strongest={"gpu_allocation_peak": "fgd", "": "best_fit"},
)
