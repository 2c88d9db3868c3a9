"""What `proreus tune pods` trains: a linear scorer, from the shipped one on."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import replace

from proreus.learning.learner import EvolutionLearner
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


def _learner(measure: str) -> EvolutionLearner:
    return replace(ES, goal=_goal, configs=(ESConfig(generations=100_000, sigma=0.1, measure=measure),))


SPECIALIST = Specialist(
    learners={measure: _learner(measure) for measure in ("gpu_allocation_peak", "failures", "jct_mean")},
    strongest={"gpu_allocation_peak": "fgd", "": "best_fit"},
    cautions=(
        "The draws are of the work that was given. Where yours changes (other sizes, other GPUs, more CPU "
        "for each GPU), tune again.",
        "Of files, pods are drawn one by one and stay until the nodes are full: this is about room, not "
        "about time spent waiting. Of a scenario in which pods leave, it is about the time until they "
        "are done.",
    ),
)
