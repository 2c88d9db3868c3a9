"""A search for one user's work: where it begins, when it ends, and what it hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.learner import EvolutionLearner
from proreus.learning.run_folder import NamedScenario
from proreus.learning.specialist import Search, TrainedSpecialist, around_a_rule, specialise
from proreus.policies.networks.tensor_layout import TensorPart, tensors_of, vector_of
from tests.inline_pool import InlinePool

BEST = np.array([1.0, 2.0, 3.0])


@dataclass(frozen=True)
class Config:
    generations: int = 100
    population: int = 6
    sigma: float = 0.1
    evaluate_every: int = 1
    seed: int = 0


@dataclass
class Bowl:
    """The nearer to BEST, the better; how often it was validated is counted."""

    start: F64 = field(default_factory=lambda: np.zeros(3))
    validated: list[F64] = field(default_factory=list)

    def draw(self, random: np.random.Generator) -> None:
        return None

    def fitness(self, members: Sequence[F64], drawn: Any) -> tuple[list[float], dict[str, int]]:
        return [-float(((member - BEST) ** 2).sum()) for member in members], {}

    def validate(self, mean: F64) -> dict[str, float]:
        self.validated.append(mean)
        return {"bowl": -float(((mean - BEST) ** 2).sum())}

    def confirm(self, tensors: Arrays) -> dict[str, F64]:
        raise AssertionError("a specialist is judged elsewhere")

    def tensors(self, mean: F64) -> Arrays:
        return {"weights": mean}


def specialists(goal: Bowl, starts: dict[str, F64], until: float) -> list[TrainedSpecialist]:
    """A search by a clock that ticks whenever it is looked at."""
    learner = EvolutionLearner(
        world="bowl",
        algorithm="es",
        configs=(Config(),),
        kind="linear",
        encoding="bowl-1",
        gain="nearer",
        about="",
        example="",
        goal=lambda scenarios, config, pool: goal,
        threads=True,
    )
    ticks = count()
    search = Search(learner, NamedScenario("bowl"), Config(), starts)
    return list(specialise(search, InlinePool(), until, lambda: float(next(ticks))))


def test_the_start_that_is_best_on_the_validation_part_is_taken() -> None:
    near, far = BEST + 0.1, BEST + 5.0
    trained = specialists(Bowl(), {"learned": far, "first_fit": near}, until=0.0)
    assert trained[0].line == "start: held out -0.03 (first_fit)" and trained[-1].start == "first_fit"
    assert np.array_equal(trained[0].checkpoint.tensors["weights"], near)


def test_without_starts_it_is_the_goals_own_which_is_what_ships() -> None:
    trained = specialists(Bowl(), {}, until=0.0)
    assert (trained[0].line, trained[0].start) == ("start: held out -14.00", "learned")


def test_one_generation_is_tried_however_short_the_time_is() -> None:
    goal = Bowl()
    specialists(goal, {}, until=-100.0)
    assert len(goal.validated) == 2  # the start and one mean


def test_more_time_leads_nearer_and_what_comes_last_is_the_best() -> None:
    gains = [
        -((specialist.checkpoint.tensors["weights"] - BEST) ** 2).sum()
        for specialist in specialists(Bowl(), {}, 200.0)
    ]
    assert gains[-1] == max(gains) > -1.0


def test_a_start_that_nothing_beats_stays() -> None:
    trained = specialists(Bowl(), {"learned": BEST.copy()}, until=5.0)
    assert trained[-1].generations == 0
    assert np.array_equal(trained[-1].checkpoint.tensors["weights"], BEST)


PARTS = (
    TensorPart("a", np.ones((2, 2)), np.array([[0.5, 0.0], [2.0, 1.0]])),
    TensorPart("b", np.zeros(1), np.zeros(1)),
)


def test_a_network_around_a_rule_is_found_again_as_a_vector() -> None:
    vector = np.array([0.25, -3.0, 7.0])
    back = vector_of(PARTS, tensors_of(PARTS, vector))
    assert back is not None and np.allclose(back, vector)
    starts = around_a_rule("rule", PARTS, tensors_of(PARTS, vector))
    assert list(starts) == ["learned", "rule"] and not starts["rule"].any()


def test_a_network_of_another_shape_or_around_another_rule_is_none() -> None:
    tensors = tensors_of(PARTS, np.zeros(3))
    assert vector_of(PARTS, {"a": tensors["a"]}) is None
    assert vector_of(PARTS, {**tensors, "b": np.ones(1)}) is None
    assert vector_of(PARTS, {**tensors, "a": np.ones((3, 2))}) is None
    assert list(around_a_rule("rule", PARTS, {})) == ["rule"]
