"""The learners of the world `vms`; those that need torch stand in `torch_learners`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from proreus.learning.device import uses_cuda
from proreus.learning.learner import Configs, EvolutionLearner
from proreus.learning.run_folder import RunIdentity, WrittenScenario
from proreus.model.errors import UsageError
from proreus.worlds.vms.encoding.place import VERSION
from proreus.worlds.vms.policies.experts import SCORER_VERSIONS
from proreus.worlds.vms.scenarios import VmScenario
from proreus.worlds.vms.training.goal import Rater, VmsESConfig, VmsGoal, why_on_the_host
from proreus.worlds.vms.training.training_trace import the_one, training_trace


def _goal(scenarios: Sequence[VmScenario], config: VmsESConfig, pool: Executor) -> VmsGoal:
    scenario = the_one(scenarios)
    return VmsGoal(config, training_trace(scenario), scenario.options, pool, rater_of(config))


def rater_of(config: VmsESConfig) -> Rater | None:
    """Where the whole population plays at once; None: on the workers. Torch is imported for a GPU alone."""
    if not uses_cuda(config.device):
        return None
    reason = why_on_the_host(config)
    if reason is not None:
        if config.device == "cuda":
            raise UsageError(reason)
        return None
    from proreus.worlds.vms.training.device.population import PopulationRater

    return PopulationRater("cuda")


@dataclass(frozen=True, kw_only=True)
class _VmsEvolution(EvolutionLearner):
    """What its held-out scores are called depends on what becomes of machines that fit nowhere, the kind of
    its checkpoint on what its scorer weighs."""

    def identity(self, scenarios: Sequence[WrittenScenario], configs: Configs) -> RunIdentity:
        """What a run of it is."""
        identity, (config,) = super().identity(scenarios, configs), configs
        if config.weighs == "gaps":
            identity = replace(identity, kind="gaps", encoding=SCORER_VERSIONS["gaps"])
        waits = all(
            isinstance(scenario, VmScenario) and scenario.options.full == "wait" for scenario in scenarios
        )
        return identity if waits else replace(identity, gain="% better than the best rule")


ES = _VmsEvolution(
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
