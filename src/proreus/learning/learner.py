"""A learner as one value: one entry of a world's `learners`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from proreus.contract.goal import Goal
from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.run_folder import RunIdentity, WrittenScenario
from proreus.learning.step import Update
from proreus.model.errors import UsageError, needs_extra
from proreus.workers.processes import Workers

Scenarios = Sequence[Any]
Configs = tuple[Any, ...]
"""One of each of a learner's `configs`."""
_EXTRA, _INSTALL = ("cmaes", "torch"), needs_extra("learn")


@dataclass(frozen=True)
class LearnerDescription:
    """What every learner says of itself."""

    world: str
    algorithm: str
    configs: Configs
    """Its settings with their defaults: frozen dataclasses, the first with the seed. They are its flags."""
    kind: str
    """Of the policy that it learns."""
    encoding: str
    """What that policy sees."""
    gain: str
    """What its held-out scores are, for the cards of checkpoints."""
    about: str
    """What it learns, in a few words."""
    example: str
    """Flags for the example of --help."""
    needs: str = ""
    """A package of the extra `learn`."""
    not_on_ray: str = ""
    """Why it cannot spread over Ray; "": it can."""
    note: Callable[[Scenarios, Configs, Workers], str] | None = None
    """What is worth knowing of a run before it begins; "": nothing."""

    length: ClassVar[str]
    """The setting, of the first of its configs, that says how long a run is."""

    def check(self, workers: Workers) -> None:
        """Refuse workers that it cannot use."""
        if workers.ray and self.not_on_ray:
            raise UsageError(f"--ray: {self.algorithm} {self.not_on_ray}")

    def identity(self, scenarios: Sequence[WrittenScenario], configs: Configs) -> RunIdentity:
        """What a run of it is."""
        settings = {name: value for config in configs for name, value in asdict(config).items()}
        return RunIdentity(
            world=self.world,
            algorithm=self.algorithm,
            kind=self.kind,
            encoding=self.encoding,
            scenarios=tuple(scenarios),
            config=settings,
            seed=configs[0].seed,
            gain=self.gain,
            length=self.length,
        )


@dataclass(frozen=True, kw_only=True)
class EvolutionLearner(LearnerDescription):
    """An evolution strategy: its members are rated side by side."""

    length: ClassVar[str] = "generations"

    goal: Callable[[Scenarios, Any, Executor], Goal]
    threads: bool
    """Whether members are rated in threads of this process, by kernels that release the lock."""
    separable: bool = False
    """Whether its weights are searched one by one, without what two of them have to do with each other."""


@dataclass(frozen=True, kw_only=True)
class GradientLearner(LearnerDescription):
    """A learner that goes down a gradient, update by update."""

    length: ClassVar[str] = "steps"

    start: Callable[[Scenarios, Configs], Arrays]
    """The tensors of the policy that it starts from: the best, until one is better."""
    train: Callable[[Scenarios, Configs, Workers, Arrays | None], Iterator[Update]]
    """From the saved state on, where there is one."""
    judge: Callable[[Scenarios, Configs, Arrays], dict[str, float]]
    """Gain of the policy of these tensors by scenario, on work that training never sees."""
    confirm: Callable[[Scenarios, Configs, Arrays], dict[str, F64]]
    """The same for each of other held-out episodes, on which nothing is chosen."""
    tells: tuple[str, ...]
    """Figures worth a word on a terminal."""


Learner = EvolutionLearner | GradientLearner


def learner_at(where: str) -> Learner:
    """The learner at "module:LEARNER"; one line where a package of the extra `learn` is missing."""
    module, _, name = where.partition(":")
    try:
        learner: Learner = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        raise UsageError(f"{name.lower()}: {error.name} is missing: {_INSTALL}") from error
    if learner.needs and importlib.util.find_spec(learner.needs) is None:
        raise UsageError(f"train {learner.world} --algo {learner.algorithm} {_INSTALL}")
    return learner
