"""The evolution strategy of the world `inference`; PPO, which needs torch, stands in `torch_learners`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from proreus.learning.learner import EvolutionLearner
from proreus.worlds.inference.encoding.pools import VERSION
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.training.goal import InferenceESConfig, InferenceGoal


def _goal(scenarios: Sequence[InferenceScenario], config: InferenceESConfig, pool: Executor) -> InferenceGoal:
    return InferenceGoal(scenarios, config, pool)


ES = EvolutionLearner(
    world="inference",
    algorithm="es",
    configs=(InferenceESConfig(),),
    kind="knobs",
    encoding=VERSION,
    gain="% fewer weighed GPU-hours than the best rule",
    about="evolution strategy over the figures of a capacity plan",
    example="--scenarios servegen --generations 20 --out runs/inference",
    needs="cmaes",
    goal=_goal,
    threads=False,
)
