"""Evolution strategy: CMA-ES over vectors of weights, whatever the world that says how good they are.

One generation: draw a population, let the world rate it on work that is the same for all its members and new
in every generation (common random numbers), and update the search distribution. Every few generations the
mean of the distribution is judged on work that training never sees.

Resuming replays the journal's fitness values through the same generators, which leads to the same
distribution bit for bit, and goes on from there. The search and the world's draws have a generator each.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from proreus.contract.goal import Goal
from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.settings import at_least_one
from proreus.model.errors import UsageError, WorkError

_SAME = 1e-6
"""Relative: less is rounding, which changes nothing of what members are worth."""


class EvolutionConfig(Protocol):
    """What the search itself depends on; a world's config has settings of its own beside these."""

    @property
    def generations(self) -> int:
        """How many populations to try."""
        ...

    @property
    def population(self) -> int:
        """Weight vectors per generation."""
        ...

    @property
    def sigma(self) -> float:
        """Width of the first population."""
        ...

    @property
    def evaluate_every(self) -> int:
        """Generations between judgements."""
        ...

    @property
    def seed(self) -> int:
        """Of the search and of what is drawn to try members on."""
        ...


def check_search(config: EvolutionConfig) -> None:
    """Refuse a search that cannot be."""
    at_least_one(config, "generations", "population", "evaluate_every")
    if not 0 < config.sigma < np.inf:
        raise UsageError(f"sigma: {config.sigma} is not above 0")


@dataclass(frozen=True)
class Generation:
    """What one generation came to."""

    number: int
    """From 0 on."""
    total: int
    """Generations in all."""
    fitness: tuple[float, ...]
    """Per member; more is better."""
    sigma: float
    """Width of the population."""
    validation: dict[str, float] | None
    """Held-out gain of the mean by scenario, where it was judged."""
    counts: dict[str, int]
    """What the world counted on the way."""
    mean: F64
    """Of the search distribution."""
    probe: float
    """A number that tells this mean from others, for those who replay the search."""
    tensors: Callable[[], Arrays]
    """The mean as a checkpoint keeps it."""
    seconds: float


def evolve(
    config: EvolutionConfig,
    goal: Goal,
    past: Sequence[Sequence[float]] = (),
    start: F64 | None = None,
    probes: Sequence[float | None] = (),
    separable: bool = False,
) -> Iterator[Generation]:
    """Generation after generation; `past` holds the fitness values of those that are not to be run again,
    `probes` what their means must come to, where that is known; `start` is in place of the goal's own.

    `separable`: the covariance is a diagonal. Few generations are enough for it, and no last digit of linear
    algebra decides which members are drawn.
    """
    from cmaes import CMA, SepCMA  # with the extra `learn`; the settings are for everybody

    begin_at = goal.start if start is None else start
    method = SepCMA if separable else CMA
    search = method(mean=begin_at, sigma=config.sigma, population_size=config.population, seed=config.seed)
    draw = np.random.default_rng(config.seed)
    for number in range(config.generations):
        begin = time.perf_counter()
        members = [search.ask() for _ in range(config.population)]
        drawn = goal.draw(draw)
        known = number < len(past)
        fitness, counts = (list(past[number]), {}) if known else goal.fitness(members, drawn)
        if not np.isfinite(fitness).all():
            raise WorkError(
                f"generation {number}: a fitness is not a number; the run can be resumed before it"
            )
        search.tell([(member, -value) for member, value in zip(members, fitness, strict=True)])
        mean = np.asarray(search.mean, dtype=np.float64)
        if known:
            _check_replayed(number, probe_of(mean), probes[number] if number < len(probes) else None)
            continue
        judged = (number + 1) % config.evaluate_every == 0 or number + 1 == config.generations
        validation = goal.validate(mean) if judged else None
        yield Generation(
            number=number,
            total=config.generations,
            fitness=tuple(fitness),
            sigma=float(search._sigma),  # cmaes tells it nowhere else
            validation=validation,
            counts=counts,
            mean=mean,
            probe=probe_of(mean),
            tensors=partial(goal.tensors, mean),
            seconds=time.perf_counter() - begin,
        )


def probe_of(mean: F64) -> float:
    """A weighed sum of the mean."""
    return float(mean @ np.cos(np.arange(mean.size)))


def _check_replayed(number: int, probe: float, recorded: float | None) -> None:
    """Refuse a search that drew other members than those whose fitness values it was given.

    Last digits of linear algebra differ between versions of NumPy and between CPUs. Where the covariance has
    equal eigenvalues they decide which members are drawn.
    """
    if recorded is not None and abs(probe - recorded) > _SAME * max(abs(recorded), 1.0):
        raise WorkError(
            f"generation {number + 1} goes another way here than where it was recorded (another NumPy, CPU "
            "or number of threads?): go on there, or begin a new run from its best checkpoint"
        )
