"""The evolution strategy of the world `workflows`; PPO, which needs torch, stands in `torch_learners`."""

from __future__ import annotations

from proreus.learning.learner import EvolutionLearner
from proreus.worlds.workflows.encoding.rows import VERSION
from proreus.worlds.workflows.training.goal import WorkflowsESConfig, WorkflowsGoal

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
    not_on_ray="rates its members in threads of one process",
    goal=WorkflowsGoal,
    threads=True,
)
