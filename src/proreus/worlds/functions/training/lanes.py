"""Runs of functions side by side, as learners see them: every decision as rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.contract.lanes import Arrays, Choices, Steps
from proreus.kernels.arrays import I64
from proreus.model.errors import UsageError
from proreus.worlds.functions.encoding.rows import VERSION
from proreus.worlds.functions.scenarios import FunctionsScenario, parse_scenario
from proreus.worlds.functions.simulation.batch import BatchSteps, EpisodeBatch
from proreus.worlds.functions.simulation.rewards import Reward
from proreus.worlds.functions.state.compile import USUAL_KEEP, Keeper, compile_demands

POOL = 64
"""Episodes that lanes draw from."""


class FunctionRowLanes:
    """Every decision as rows; each is worth what it takes off the objective."""

    encoding = VERSION

    def __init__(self, batch: EpisodeBatch) -> None:
        self.batch = batch

    def __len__(self) -> int:
        return len(self.batch)

    def reset(self, seed: int) -> Choices:
        """Episodes that the seed determines."""
        return self._choices(self.batch.reset(seed))

    def reset_some(self, seeds: Mapping[int, int]) -> Choices:
        """The first episode of some lanes, each as the only one of its seed."""
        return self._choices(self.batch.begin_some(list(seeds), list(seeds.values())))

    def step(self, chosen: I64) -> Steps:
        """One decision of every run."""
        steps = self.batch.step(chosen)
        rewards = steps.rewards.copy()
        return Steps(self._choices(steps), rewards, steps.ended.copy(), rewards)

    def capture(self) -> Arrays:
        """The runs as they stand."""
        return self.batch.capture()

    def restore(self, saved: Mapping[str, Any]) -> Choices:
        """Go on with captured runs."""
        return self._choices(self.batch.restore(saved))

    def _choices(self, steps: BatchSteps) -> Choices:
        """Copied: the batch overwrites its arrays with the next step."""
        rows, context = self.batch.encoded()
        return Choices(rows, context, steps.legal.copy())


def lanes_of(
    scenario: FunctionsScenario, count: int, pool: int = POOL, *, keeper: Keeper = "asked", waits: bool = True
) -> FunctionRowLanes:
    """So many runs over a pool of episodes of the training part; `waits`: that is an action, too."""
    if pool < 1:
        raise UsageError(f"pool: {pool} is not at least 1")
    demands = [scenario.of_part("train").demand(seed) for seed in range(pool)]
    work = compile_demands(demands, scenario.terms, keeper, USUAL_KEEP)
    return FunctionRowLanes(EpisodeBatch(work, count, reward=Reward(worth=1.0), waits=waits))


def episodes(scenario: str = "busy@60", count: int = 1, pool: int = POOL) -> FunctionRowLanes:
    """So many lanes of a scenario that needs no data, as vector environments show them."""
    return lanes_of(parse_scenario(scenario, None), count, pool)
