"""The learner of moves between windows."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from proreus.learning.learner import EvolutionLearner
from proreus.worlds.rebalance.windows.encoding import VERSION
from proreus.worlds.rebalance.windows.policies.catalogue import KIND
from proreus.worlds.rebalance.windows.scenarios import WindowScenario, load_kernels
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig, WindowsGoal


def _goal(scenarios: Sequence[WindowScenario], config: MovesESConfig, pool: Executor) -> WindowsGoal:
    load_kernels()
    return WindowsGoal(config, scenarios, pool)


ES = EvolutionLearner(
    world="rebalance",
    algorithm="es",
    configs=(MovesESConfig(),),
    kind=KIND,
    encoding=VERSION,
    gain="gain over hotspot",
    needs="cmaes",
    goal=_goal,
    threads=True,
)
