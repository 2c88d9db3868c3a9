"""What `bench gpu` measures beside PPO of pods: rollouts of virtual machines, generations of evolutions.

Imports torch. The same members are rated on the same work by the host's cores and on the device; that both
give the same ratings is a law of the tests, and looked at here once more.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from proreus.contract.goal import Goal
from proreus.kernels.arrays import F64
from proreus.learning.ppo import PPOConfig, PPOLearner
from proreus.learning.tensor_ppo import TensorPPOLearner
from proreus.model.errors import WorkError
from proreus.workers.processes import Workers, pool_of
from proreus.worlds.pods.scenarios import Generated, PodScenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.training.device import population as of_pods
from proreus.worlds.pods.training.goal import ESConfig, PodsGoal
from proreus.worlds.vms.simulation.world import SCENARIOS, with_servers
from proreus.worlds.vms.training.device import population as of_vms
from proreus.worlds.vms.training.device.lanes import VmDeviceLanes
from proreus.worlds.vms.training.evaluation import VmsLessons, VmsSchool
from proreus.worlds.vms.training.goal import VmsESConfig, VmsGoal
from proreus.worlds.vms.training.training_trace import TrainingTrace

Place = Literal["cpu", "cuda"]
_SIGMA = 0.1
_SAME = 1e-9
"""Ratings of the two may differ by so much, relative."""


@dataclass(frozen=True)
class Rates:
    """Of the device and of the host, in the same unit."""

    device: float
    host: float


@dataclass(frozen=True)
class RolloutSize:
    """Runs of virtual machines that are played by a network."""

    servers: int
    lanes: int
    """On the device."""
    steps: int
    host: tuple[int, int]
    """Lanes and choices of each on the host."""
    machines: int
    """Of the trace."""


def vms_rollouts(size: RolloutSize, device: Place, seconds: float) -> Rates:
    """Choices per second of playing alone with PPO's network, which is on the device in both cases."""
    options = with_servers(SCENARIOS["recovering"], size.servers)
    school = VmsSchool(TrainingTrace(machines=size.machines), options, VmsLessons())
    lanes, steps = size.host
    config = PPOConfig(device=device, rollout_steps=steps)
    there = VmDeviceLanes(school.lanes(size.lanes), device)
    learner = TensorPPOLearner(replace(config, rollout_steps=size.steps), there)

    def on_device() -> float:
        begin = time.perf_counter()
        made = int(learner.play_there().chose[1:-1].sum())  # waits for the device
        return made / (time.perf_counter() - begin)

    host = PPOLearner(config, school.lanes(lanes))

    def on_host() -> float:
        begin = time.perf_counter()
        made = host.play().rewards.size
        return made / (time.perf_counter() - begin)

    return Rates(_median(on_device, seconds), _median(on_host, seconds))


@dataclass(frozen=True)
class SearchSize:
    """What one generation rates."""

    population: int
    """On the device."""
    host: int
    """Members that the cores are asked to rate: they take as long for each, however many there are."""
    vms: tuple[int, int, int]
    """Servers, starts of a member, machines of the trace."""
    pods: int
    """Nodes."""


def vms_generations(size: SearchSize, device: Place, seconds: float) -> Rates:
    """Members rated per minute where machines wait."""
    servers, starts, machines = size.vms
    config = VmsESConfig(population=size.population, starts=starts)
    options, trace = with_servers(SCENARIOS["waiting"], servers), TrainingTrace(machines=machines)

    def goal(pool: Executor, rater: Any) -> Goal:
        return VmsGoal(config, trace, options, pool, rater)

    rater = of_vms.PopulationRater(device)
    return _rated(goal, rater, (size, seconds), threads=True)


def pods_generations(size: SearchSize, device: Place, seconds: float) -> Rates:
    """Members rated per minute of GPU pods that stay, one workload for each."""
    config = ESConfig(population=size.population, train_seeds=1)
    scenario = PodScenario(Generated("gpu", size.pods), PodsOptions(drop_failures=True))

    def goal(pool: Executor, rater: Any) -> Goal:
        return PodsGoal(config, (scenario,), pool, rater)

    rater = of_pods.PopulationRater(device, config.measure)
    return _rated(goal, rater, (size, seconds), threads=False)


def _rated(
    goal: Callable[[Executor, Any], Goal], rater: Any, effort: tuple[SearchSize, float], *, threads: bool
) -> Rates:
    size, seconds = effort
    with pool_of(Workers(), size.host, threads=threads) as pool:
        host, there = goal(pool, None), goal(pool, rater)
        random = np.random.default_rng(0)
        drawn = host.draw(random)
        members = [host.start + _SIGMA * random.normal(size=host.start.size) for _ in range(size.population)]
        few = members[: size.host]
        # The first time of each compiles, captures, and rates the rule; their ratings must be the same.
        _check_same(host.fitness(few, drawn)[0], there.fitness(members, drawn)[0][: size.host])
        return Rates(
            _median(lambda: _per_minute(there, members, drawn), seconds),
            _median(lambda: _per_minute(host, few, drawn), seconds),
        )


def _check_same(host: Sequence[float], device: Sequence[float]) -> None:
    if not np.allclose(host, device, rtol=_SAME, atol=_SAME):
        apart = float(np.abs(np.array(host) - np.array(device)).max())
        raise WorkError(f"the device rates a population otherwise than the host, by up to {apart:g}")


def _per_minute(goal: Goal, members: Sequence[F64], drawn: Any) -> float:
    begin = time.perf_counter()
    goal.fitness(members, drawn)
    return 60.0 * len(members) / (time.perf_counter() - begin)


def _median(measure: Callable[[], float], seconds: float) -> float:
    measure()
    rates, begin = [measure()], time.perf_counter()
    while time.perf_counter() - begin < seconds:
        rates.append(measure())
    return statistics.median(rates)
