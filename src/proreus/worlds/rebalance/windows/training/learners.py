"""The learner of moves between windows."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from proreus.learning.learner import EvolutionLearner
from proreus.model.errors import UsageError
from proreus.worlds.rebalance.windows.encoding.moves import VERSION
from proreus.worlds.rebalance.windows.policies.catalogue import KIND
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig, WindowsGoal


def _goal(scenarios: Sequence[WindowScenario], config: MovesESConfig, pool: Executor) -> WindowsGoal:
    for scenario in scenarios:
        if not hasattr(scenario, "windows"):
            raise UsageError(f"es learns from windows of requests, and {scenario.name!r} is none of them")
    return WindowsGoal(config, scenarios, pool)


ES = EvolutionLearner(
    world="rebalance",
    algorithm="es",
    configs=(MovesESConfig(),),
    kind=KIND,
    encoding=VERSION,
    gain="gain over the best rule",
    about="evolution strategy over a linear scorer of moves",
    example="--scenarios windows/serial,windows/parallel --out runs/moves",
    needs="cmaes",
    goal=_goal,
    threads=True,
)
