"""A specialist: a policy trained for one user's work, in a time that the user names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from proreus.contract.lanes import Arrays
from proreus.learning.es import evolve
from proreus.learning.learner import EvolutionLearner
from proreus.learning.runs import mean_gain
from proreus.policies.checkpoint import Checkpoint


@dataclass(frozen=True)
class Specialist:
    """What a world offers to `tune`."""

    learner: EvolutionLearner
    """Starts from the best policy that ships."""
    measure: str
    """What it learns to have much of; where another measure decides, nothing is trained."""
    strongest: Mapping[str, str] = field(default_factory=dict)
    """Measure that decides ("": any other) -> the rule that is known to be the strongest there."""

    def strongest_rule(self, deciding: str) -> str:
        """What to use where the draws cannot tell rules apart; "": none is known."""
        return self.strongest.get(deciding, self.strongest.get("", ""))


@dataclass(frozen=True)
class Trained:
    """The best so far."""

    checkpoint: Checkpoint
    generations: int
    line: str
    """How it goes, for a terminal."""


def specialise(
    learner: EvolutionLearner,
    scenario: Any,
    config: Any,
    pool: Executor,
    until: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Trained]:
    """Search from the start until that moment; what is best on the validation part comes last.

    One generation is always tried, however short the time.
    """
    begin, goal = clock(), learner.goal((scenario,), config, pool)
    identity = learner.identity((scenario,), (config,))

    def kept(tensors: Arrays, gain: float, generations: int) -> Checkpoint:
        scores = {f"{learner.gain}, {scenario.name}": gain}
        return Checkpoint(identity.card(scores, generations, clock() - begin), tensors)

    best = mean_gain(goal.validate(goal.start))
    found = Trained(kept(goal.tensors(goal.start), best, 0), 0, f"start: held out {best:+.2f}")
    yield found
    for generation in evolve(config, goal):
        done = generation.number + 1
        if generation.validation is not None:
            gain = mean_gain(generation.validation)
            if gain > best:
                best = gain
                line = f"generation {done}: held out {gain:+.2f} (best so far)"
                found = Trained(kept(generation.tensors(), gain, done), done, line)
                yield found
        if clock() + generation.seconds >= until:
            break
    yield Trained(found.checkpoint, found.generations, "")
