"""A specialist: a policy trained for one user's work, in a time that the user names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.kernels.arrays import F64
from proreus.learning.es import evolve
from proreus.learning.learner import EvolutionLearner
from proreus.learning.run_folder import mean_gain
from proreus.policies.catalogue import LEARNED
from proreus.policies.checkpoint import Checkpoint
from proreus.policies.networks.tensor_layout import TensorPart, size_of, vector_of

Starts = Mapping[str, F64]
"""Policy -> its weights."""


def _as_the_goal_says(scenario: Any) -> Starts:
    return {}


def around_a_rule(rule: str, parts: tuple[TensorPart, ...], shipped: Mapping[str, Any]) -> Starts:
    """The rule that a network is around, and before it the shipped network, if it is such a one."""
    plain, vector = {rule: np.zeros(size_of(parts))}, vector_of(parts, shipped)
    return plain if vector is None else {LEARNED: vector, **plain}


@dataclass(frozen=True)
class Specialist:
    """What a world offers to `tune`."""

    learners: Mapping[str, EvolutionLearner]
    """Measure that decides -> what learns to be good in it; where another decides, nothing is trained."""
    strongest: Mapping[str, str] = field(default_factory=dict)
    """Measure that decides ("": any other) -> the rule that is known to be the strongest there."""
    starts: Callable[[Any], Starts] = _as_the_goal_says
    """Scenario -> where a search may begin: the best of them on the validation part is taken. Without any it
    is the goal's own start, which is `learned`."""
    rivals: tuple[str, ...] = ()
    """Rules with what may follow an @ in their names, that are judged beside the plain ones."""
    beside: tuple[str, ...] = ()
    """Measures that are told beside the one that decides: what a policy may pay for it."""
    cautions: tuple[str, ...] = ()
    """What a user should watch, a sentence or two each."""

    def strongest_rule(self, deciding: str) -> str:
        """What to use where the draws cannot tell rules apart; "": none is known."""
        return self.strongest.get(deciding, self.strongest.get("", ""))


@dataclass(frozen=True)
class Search:
    """What is searched for, and on what."""

    learner: EvolutionLearner
    scenario: Any
    config: Any
    starts: Starts = field(default_factory=dict)


@dataclass(frozen=True)
class TrainedSpecialist:
    """The best so far."""

    checkpoint: Checkpoint
    generations: int
    line: str
    """How it goes, for a terminal."""
    start: str = LEARNED
    """The policy that the search began as."""
    tried: int = 0
    """How many generations there were, the best one or not."""


def specialise(
    search: Search, pool: Executor, until: float, clock: Callable[[], float] = time.monotonic
) -> Iterator[TrainedSpecialist]:
    """Search from the best start until that moment; what is best on the validation part comes last.

    One generation is always tried, however short the time.
    """
    learner, scenario, config = search.learner, search.scenario, search.config
    begin, goal = clock(), learner.goal((scenario,), config, pool)
    identity = learner.identity((scenario,), (config,))

    def kept(tensors: Arrays, gain: float, generations: int) -> Checkpoint:
        scores = {f"{identity.gain}, {scenario.name}": gain}
        return Checkpoint(identity.card(scores, generations, clock() - begin), tensors)

    starts = search.starts or {LEARNED: goal.start}
    gains = {name: mean_gain(goal.validate(vector)) for name, vector in starts.items()}
    name = max(gains, key=lambda start: gains[start])  # the first of equals
    best = gains[name]
    message = f"start: held out {best:+.2f}" + (f" ({name})" if search.starts else "")
    specialist = TrainedSpecialist(kept(goal.tensors(starts[name]), best, 0), 0, message, name)
    yield specialist
    done = 0
    for generation in evolve(config, goal, start=starts[name], separable=learner.separable):
        done = generation.number + 1
        if generation.validation is not None:
            gain = mean_gain(generation.validation)
            if gain > best:
                best = gain
                line = f"generation {done}: held out {gain:+.2f} (best so far)"
                specialist = TrainedSpecialist(kept(generation.tensors(), gain, done), done, line, name)
                yield specialist
        if clock() + generation.seconds >= until:
            break
    yield TrainedSpecialist(specialist.checkpoint, specialist.generations, "", name, done)
