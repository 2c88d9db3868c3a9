"""What learners need: episodes side by side, and how good a vector of weights is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from proreus.contract.episodes import EpisodeLanes
from proreus.contract.lanes import Arrays
from proreus.contract.play import step_by_step
from proreus.kernels.arrays import F64
from proreus.learning.evaluation import Judge, confirming
from proreus.learning.learner import Configs, EvolutionLearner, GradientLearner
from proreus.learning.step import Update
from proreus.policies.catalogue import AnyPolicy
from proreus.workers.processes import Workers
from tests.toy.model import VERSION, encode
from tests.toy.policies import POLICIES, SHORTEST, Scored
from tests.toy.scenarios import SEEDS_APART, ToyScenario, parse
from tests.toy.simulation import MEASURES

_CHOSEN_ON = 3


def lanes(scenario: ToyScenario, count: int) -> EpisodeLanes:
    """Episodes of the training part."""
    return EpisodeLanes(scenario.of_part("train"), count, SEEDS_APART, encode, VERSION)


def episodes(scenario: str = "calm", count: int = 1) -> EpisodeLanes:
    """One lane for an environment, many for a vector of them."""
    return lanes(parse(scenario, None), count)


class ToyGoal:
    """Less time in the system than the better rule, from that rule on."""

    def __init__(self, scenarios: Sequence[ToyScenario], runs: int = 4) -> None:
        self._scenarios, self._runs = scenarios, runs

    @property
    def start(self) -> F64:
        """The shortest finish."""
        return SHORTEST.copy()

    def draw(self, random: np.random.Generator) -> list[int]:
        """Seeds of jobs."""
        drawn: list[int] = random.integers(SEEDS_APART, size=self._runs).tolist()
        return drawn

    def fitness(self, members: Sequence[F64], drawn: list[int]) -> tuple[list[float], dict[str, int]]:
        """Minus the mean time in the system."""
        training = [scenario.of_part("train") for scenario in self._scenarios]
        fitness = [
            -float(
                np.mean(
                    [
                        _time(toy_scenario, Scored("", member), seed)
                        for toy_scenario in training
                        for seed in drawn
                    ]
                )
            )
            for member in members
        ]
        return fitness, {"runs": len(members) * len(training) * len(drawn)}

    def validate(self, mean: F64) -> dict[str, float]:
        """% less time in the system than the best rule."""
        gains = {}
        for scenario in self._scenarios:
            held_out, (_, names) = scenario.of_part("valid"), scenario.yardstick()
            rules = [POLICIES.make(name) for name in names]
            times = [
                float(np.mean([_time(held_out, rule, seed) for seed in range(self._runs)]))
                for rule in (Scored("", mean), *rules)
            ]
            gains[scenario.name] = 100.0 * (1.0 - times[0] / min(times[1:]))
        return gains

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        """The same for each of the seeds after those."""
        return _each(self._scenarios, lambda: Scored("", tensors["weights"]), confirming(self._runs, 5))

    def tensors(self, mean: F64) -> Arrays:
        """As `policies` reads it back."""
        return {"weights": mean}


@dataclass(frozen=True)
class ToyESConfig:
    """Settings of the evolution strategy."""

    generations: int = 5
    population: int = 6
    sigma: float = 0.5
    evaluate_every: int = 2
    seed: int = 0


ES = EvolutionLearner(
    world="toy",
    algorithm="es",
    configs=(ToyESConfig(),),
    kind="linear",
    encoding=VERSION,
    gain="% less time than the best rule",
    about="evolution strategy over a linear score",
    example="--generations 5",
    needs="cmaes",
    not_on_ray="rates its members one after the other",
    goal=lambda scenarios, config, pool: ToyGoal(scenarios),
    threads=True,
)


@dataclass(frozen=True)
class ToyLessons:
    """What is trained on and how it is judged."""

    lanes: int = 4
    evaluate_every: int = 2


def _ppo(
    scenarios: Sequence[ToyScenario], configs: Configs, workers: Workers, saved: Arrays | None
) -> Iterator[Update]:
    from proreus.learning.ppo import ppo

    yield from ppo(configs[0], lanes(scenarios[0], configs[1].lanes), saved)


def _start(scenarios: Sequence[ToyScenario], configs: Configs) -> Arrays:
    from proreus.learning.learner_state import first_network, weights_of
    from proreus.policies.networks.row_networks import ActorCritic

    seen = lanes(scenarios[0], 1).reset(0)
    return weights_of(first_network(ActorCritic, configs[0], (seen.rows.shape[2], seen.context.shape[1])))


def _judge(scenarios: Sequence[ToyScenario], configs: Configs, tensors: Arrays) -> dict[str, float]:
    by_scenario = _each(scenarios, partial(_actor, tensors), range(_CHOSEN_ON))
    return {name: float(gains.mean()) for name, gains in by_scenario.items()}


def _confirm(scenarios: Sequence[ToyScenario], configs: Configs, tensors: Arrays) -> dict[str, F64]:
    return _each(scenarios, partial(_actor, tensors), confirming(_CHOSEN_ON, 5))


def _actor(tensors: Arrays) -> AnyPolicy:
    from proreus.policies.networks.actor_policy import ActorPolicy, actor_of

    return ActorPolicy("", actor_of(tensors), encode)


def _settings() -> tuple[Any, ...]:
    from proreus.learning.ppo import PPOConfig

    return PPOConfig(steps=2_000, rollout_steps=64, hidden=16, minibatches=4), ToyLessons()


PPO = GradientLearner(
    world="toy",
    algorithm="ppo",
    configs=_settings(),
    kind="actor",
    encoding=VERSION,
    gain="less time than the best rule",
    about="a network that bids",
    example="--steps 2000",
    needs="torch",
    start=_start,
    train=_ppo,
    judge=_judge,
    confirm=_confirm,
    tells=("return", "loss", "entropy"),
)


def _each(scenarios: Sequence[ToyScenario], make: Callable[[], AnyPolicy], seeds: range) -> dict[str, F64]:
    """Less time in the system than the best rule, by scenario and seed."""

    def play(scenario: ToyScenario, seed: int, policy: AnyPolicy) -> dict[str, float]:
        return {"time_in_system": _time(scenario, policy, seed)}

    return Judge[ToyScenario, AnyPolicy](play, POLICIES.make, MEASURES).each(make, scenarios, seeds)


def _time(scenario: ToyScenario, policy: Any, seed: int) -> float:
    return step_by_step(scenario, scenario.load(seed), policy, seed).measures["time_in_system"]
