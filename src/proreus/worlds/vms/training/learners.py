"""The learners of the world `vms`; those that need torch stand in `torch_learners`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor

from proreus.learning.learner import EvolutionLearner
from proreus.worlds.vms.encoding.place import VERSION
from proreus.worlds.vms.scenarios import VmScenario
from proreus.worlds.vms.training.goal import VmsESConfig, VmsGoal
from proreus.worlds.vms.training.trace import the_one, training_trace


def _goal(scenarios: Sequence[VmScenario], config: VmsESConfig, pool: Executor) -> VmsGoal:
    scenario = the_one(scenarios)
    return VmsGoal(config, training_trace(scenario), scenario.options, pool)


ES = EvolutionLearner(
    world="vms",
    algorithm="es",
    configs=(VmsESConfig(),),
    kind="linear",
    encoding=VERSION,
    gain="% less wait than the best rule",
    about="evolution strategy over a linear scorer that starts from first fit",
    example="--scenario huawei/waiting --generations 40 --out runs/vms",
    needs="cmaes",
    goal=_goal,
    threads=True,
)
