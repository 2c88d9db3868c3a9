"""PPO of a world whose decisions are rows: its lanes, networks and rules as the parts of a learner."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from proreus.contract.lanes import Arrays, Lanes
from proreus.kernels.arrays import F64
from proreus.learning.evaluation import Judge, Measurable, confirming
from proreus.learning.learner import Configs
from proreus.learning.learner_state import check_device, first_network, weights_of
from proreus.learning.ppo import ppo
from proreus.learning.settings import at_least_one
from proreus.learning.step import Update
from proreus.model.errors import UsageError, WorkError
from proreus.policies.networks.row_networks import ActorCritic
from proreus.workers.processes import Workers

S = TypeVar("S", bound=Measurable)
P = TypeVar("P")


@dataclass(frozen=True)
class LaneLessons:
    """What is trained on and how it is judged."""

    lanes: int = 8
    """Runs that are played side by side."""
    validation_runs: int = 6
    """Runs by which the policy is judged."""
    confirm_runs: int = 30
    """Runs after those that say, at the end, how much better the best is than the start."""
    evaluate_every: int = 20
    """Updates between judgements; the learner is saved as often."""

    def __post_init__(self) -> None:
        at_least_one(self, "lanes", "validation_runs", "confirm_runs", "evaluate_every")


@dataclass(frozen=True, eq=False)
class LanePPO(Generic[S, P]):
    """What a world hands in; its methods are the parts of its `GradientLearner`."""

    sizes: tuple[int, int]
    """Features of a row and of the context."""
    lanes_of: Callable[[S, int], Lanes]
    policy_of: Callable[[Arrays], P]
    """A ValueError where the tensors are no network."""
    judging: Judge[S, P]
    initial: Callable[[Configs], Arrays] | None = None
    """The weights that learning begins with; None: the seed draws them."""

    def start(self, scenarios: Sequence[S], configs: Configs) -> Arrays:
        """The first network."""
        del scenarios
        if self.initial is not None:
            return self.initial(configs)
        return weights_of(first_network(ActorCritic, configs[0], self.sizes))

    def train(
        self, scenarios: Sequence[S], configs: Configs, workers: Workers, saved: Arrays | None
    ) -> Iterator[Update]:
        """PPO over lanes of the one scenario."""
        del workers  # the network is small: the lanes play in one thread
        config, lessons = configs
        check_device("ppo", config.device)
        if len(scenarios) != 1:
            raise UsageError("ppo: lanes are of one scenario; name one with --scenarios")
        initial = None if self.initial is None else self.initial(configs)
        yield from ppo(config, self.lanes_of(scenarios[0], lessons.lanes), saved, initial)

    def judge(self, scenarios: Sequence[S], configs: Configs, tensors: Arrays) -> dict[str, float]:
        """Gains over the strongest rules."""
        policy = self._policy(tensors)
        return self.judging.gains(lambda: policy, scenarios, configs[-1].validation_runs)

    def confirm(self, scenarios: Sequence[S], configs: Configs, tensors: Arrays) -> dict[str, F64]:
        """The same, run by run, where nothing was chosen."""
        policy, lessons = self._policy(tensors), configs[-1]
        seeds = confirming(lessons.validation_runs, lessons.confirm_runs)
        return self.judging.each(lambda: policy, scenarios, seeds)

    def _policy(self, tensors: Arrays) -> P:
        try:
            return self.policy_of(tensors)
        except ValueError as error:
            raise WorkError(f"ppo: {error}; a lower learning rate may help") from error
