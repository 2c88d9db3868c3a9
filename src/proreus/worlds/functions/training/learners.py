"""The evolution strategy of the world `functions`; PPO, which needs torch, stands in `torch_learners`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from proreus.learning.learner import EvolutionLearner
from proreus.worlds.functions.encoding.rows import VERSION
from proreus.worlds.functions.scenarios import FunctionsScenario
from proreus.worlds.functions.training.goal import FunctionsESConfig, FunctionsGoal


def _goal(scenarios: Sequence[FunctionsScenario], config: FunctionsESConfig, pool: Executor) -> FunctionsGoal:
    return FunctionsGoal(scenarios, config, pool)


ES = EvolutionLearner(
    world="functions",
    algorithm="es",
    configs=(FunctionsESConfig(),),
    kind="actor",
    encoding=VERSION,
    gain="% less than the best rule",
    about="evolution strategy over a network that bids and begins as the rule warm_cost",
    example="--scenarios calm,busy,rush --generations 60 --out runs/functions",
    needs="cmaes",
    not_on_ray="rates its members in threads of one process",
    goal=_goal,
    threads=True,
)
