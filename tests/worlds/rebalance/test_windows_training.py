"""Evolution of moves: it improves on where it starts, resumes to the same result, and never sees the test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="needs the extra learn")

from proreus.learning.es import evolve
from proreus.learning.evolution_run import EvolutionRun
from proreus.model.errors import UsageError
from proreus.workers.processes import Workers, pool_of
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, FIRST_SIZE
from proreus.worlds.rebalance.windows.model import RequestWindows
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy
from proreus.worlds.rebalance.windows.scenarios import WindowScenario
from proreus.worlds.rebalance.windows.training.goal import (
    MovesESConfig,
    WindowsGoal,
    _windows,
    starting_weights,
)
from proreus.worlds.rebalance.windows.training.learners import ES
from tests.inline_pool import InlinePool

SMALL = WindowScenario("windows/serial", config=WindowsConfig(nodes=4, pods=16, windows=240))
CONFIG = MovesESConfig(
    generations=6, population=8, deployments=1, train_seeds=1, validation_seeds=2, stretch=100, seed=3
)


def test_a_population_improves_and_weights_change() -> None:
    generations = list(evolve(CONFIG, WindowsGoal(CONFIG, [SMALL], InlinePool())))
    assert [generation.number for generation in generations] == list(range(6))
    assert np.mean(generations[-1].fitness) > np.mean(generations[0].fitness)
    assert (generations[-1].mean != starting_weights(CONFIG, SMALL)[FIRST_SIZE:]).any()
    judged = [generation.validation for generation in generations if generation.validation is not None]
    assert [set(gains) for gains in judged] == [{"windows/serial"}] * 2


def test_a_resumed_run_ends_where_an_unbroken_one_does(tmp_path: Path) -> None:
    identity = ES.identity([SMALL], (CONFIG,))
    with pool_of(Workers(2), 8, threads=True) as pool:
        record = EvolutionRun(tmp_path / "run", identity, resume=False)
        for generation in evolve(CONFIG, WindowsGoal(CONFIG, [SMALL], pool)):
            record.add(generation)
            if generation.number == 2:
                break
        record.close()
        again = EvolutionRun(tmp_path / "run", identity, resume=True)
        assert len(again.past_fitness) == 3
        for generation in evolve(CONFIG, WindowsGoal(CONFIG, [SMALL], pool), again.past_fitness):
            again.add(generation)
            last = generation
        again.close()
    unbroken = list(evolve(CONFIG, WindowsGoal(CONFIG, [SMALL], InlinePool())))[-1]
    assert last.fitness == unbroken.fitness and (last.mean == unbroken.mean).all()
    policy = make_move_policy(str(tmp_path / "run"))
    assert isinstance(policy, MovePolicy) and policy.weights.shape == (len(FEATURES),)
    assert again.summary()["validation"] == unbroken.validation


def test_training_never_reads_the_windows_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int]] = []
    real = WindowScenario.windows

    def watched(self: WindowScenario, seed: int) -> RequestWindows:
        request_windows = real(self, seed)
        seen.append((self.part, int(request_windows.name.removeprefix("generated-"))))
        return request_windows

    monkeypatch.setattr(WindowScenario, "windows", watched)
    _windows.cache_clear()
    config = MovesESConfig(generations=1, population=4, deployments=1)
    list(evolve(config, WindowsGoal(config, [SMALL], InlinePool())))
    assert {part for part, _ in seen} == {"train", "valid"}
    assert min(seed for _, seed in seen) >= 1_000_000


def test_settings_that_mean_nothing_are_refused() -> None:
    for bad in ({"generations": 0}, {"sigma": 0.0}, {"migration_price": -1.0}, {"stretch": 0}):
        with pytest.raises(UsageError):
            MovesESConfig(**bad)
