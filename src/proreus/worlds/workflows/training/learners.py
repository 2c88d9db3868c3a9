"""The evolution strategy of the world `workflows`; PPO, which needs torch, stands in `torch_learners`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from proreus.learning.learner import EvolutionLearner
from proreus.worlds.workflows.encoding.rows import VERSION
from proreus.worlds.workflows.scenarios import WorkflowsScenario
from proreus.worlds.workflows.training.goal import WorkflowsESConfig, WorkflowsGoal


def _goal(scenarios: Sequence[WorkflowsScenario], config: WorkflowsESConfig, pool: Executor) -> WorkflowsGoal:
    return WorkflowsGoal(scenarios, config, pool)


ES = EvolutionLearner(
    world="workflows",
    algorithm="es",
    configs=(WorkflowsESConfig(),),
    kind="actor",
    encoding=VERSION,
    gain="% less than the best rule",
    about="evolution strategy over a network that bids and begins as a rule",
    example="--scenarios calm,busy,rush --generations 25 --out runs/workflows",
    needs="cmaes",
    not_on_ray="rates its members in processes of this machine",
    goal=_goal,
    # Threads would share the columns of a run, and wait for each other to count references to them.
    threads=False,
)
