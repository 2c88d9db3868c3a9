"""Rewards by name: what happened between two decisions, weighted. All of them are measured, none foreseen.

`latency_cost` is the document's formula: R1 is the mean RFRT of the requests that ended meanwhile (a dropped
one counts as the most), R2 what the active nodes cost meanwhile, of what all nodes would have cost.
`slo_cost` has the share of requests that missed their objective in place of R1. `objective` adds up, over a
run, to minus the measure `objective`. `paper` is that of Mampage et al. 2023: R1 is the sum of the last RFRT
of all functions that have instances, and both are scaled by the least and the most seen so far.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.functions.model import FunctionsTerms
from proreus.worlds.functions.simulation.kernel import worth_since
from proreus.worlds.functions.state import columns as c
from proreus.worlds.functions.state.columns import FunctionsWork, Runs

_MEASURED = (
    "this reward is measured in the world: with a _get_next_state of your own, say latency_cost or slo_cost, "
    "or override _calculate_reward too"
)
NAMES = ("latency_cost", "slo_cost", "objective", "paper")


@dataclass(frozen=True)
class Reward:
    """Minus a weighted sum of three shares from 0 to 1, plus what the objective says; rewards add up."""

    latency: float = 0.0
    cost: float = 0.0
    misses: float = 0.0
    worth: float = 0.0

    def __add__(self, other: Reward) -> Reward:
        pairs = zip(self.weights, other.weights, strict=True)
        return Reward(*(float(one + two) for one, two in pairs))

    def __rmul__(self, factor: float) -> Reward:
        return Reward(*(float(factor * weight) for weight in self.weights))

    @property
    def weights(self) -> F64:
        """[4] as `rewarded` takes them."""
        return np.array([self.latency, self.cost, self.misses, self.worth])

    def forget(self) -> None:
        """Nothing is remembered."""

    def of(self, work: FunctionsWork, runs: Runs) -> float:
        """What the last decision of the run was worth."""
        return float(rewarded(work, runs, 0, self.weights))

    def of_placement(self, rart: float, price_share: float, terms: FunctionsTerms) -> float:
        """The document's formula, where no run was played: of a response time and a node's price, 0 to 1."""
        if self.worth:
            raise UsageError(_MEASURED)
        latency = min(max((rart - terms.rfrt_low) / (terms.rfrt_high - terms.rfrt_low), 0.0), 1.0)
        return -(self.latency * latency + self.cost * price_share + self.misses * float(rart > terms.slo))


@dataclass
class PaperReward:
    """Scaled by the least and the most of R1 and R2 seen so far, over all episodes since a seed was given."""

    beta: float = 0.7
    low: F64 = field(default_factory=lambda: np.full(2, np.inf))
    high: F64 = field(default_factory=lambda: np.full(2, -np.inf))

    def forget(self) -> None:
        """Begin without a least and a most."""
        self.low[:], self.high[:] = np.inf, -np.inf

    def of(self, work: FunctionsWork, runs: Runs) -> float:
        """What the last decision of the run was worth."""
        paid = float(runs.figure[0, c.PAID] - runs.mark[0, c.PAID])
        seen = np.array([float(deployed_rfrt(runs, 0)), paid])
        self.low, self.high = np.minimum(self.low, seen), np.maximum(self.high, seen)
        span = self.high - self.low
        shares = np.where(span > 0.0, (seen - self.low) / np.where(span > 0.0, span, 1.0), 0.0)
        return -float(self.beta * shares[0] + (1.0 - self.beta) * shares[1])

    def of_placement(self, rart: float, price_share: float, terms: FunctionsTerms) -> float:
        """There is none: R1 is a sum over requests that were served."""
        raise UsageError(_MEASURED)


def reward_named(name: str, beta: float) -> Reward | PaperReward:
    """The reward of that name."""
    if not 0.0 <= beta <= 1.0:
        raise UsageError(f"beta: {beta} is not from 0 to 1")
    match name:
        case "latency_cost":
            return Reward(latency=beta, cost=1.0 - beta)
        case "slo_cost":
            return Reward(misses=beta, cost=1.0 - beta)
        case "objective":
            return Reward(worth=1.0)
        case "paper":
            return PaperReward(beta)
    raise unknown_name("reward", name, NAMES)


@compiled
def rewarded(work: FunctionsWork, runs: Runs, lane: int, weights: F64) -> float:
    """What the last decision was worth, with the weights of a `Reward`."""
    ended = runs.figure[lane, c.ENDED] - runs.mark[lane, c.ENDED]
    over = ended + runs.figure[lane, c.LOST] - runs.mark[lane, c.LOST]
    latency, misses, cost = 0.0, 0.0, 0.0
    if over > 0.0:
        rfrt = (runs.figure[lane, c.RFRT] - runs.mark[lane, c.RFRT]) / over
        low, high = work.term[c.LOW], work.term[c.HIGH]
        latency = min(max((rfrt - low) / (high - low), 0.0), 1.0)
        misses = 1.0 - (runs.figure[lane, c.MET] - runs.mark[lane, c.MET]) / over
    full = work.term[c.FULL_PRICE] * (runs.figure[lane, c.NOW] - runs.mark[lane, c.NOW])
    if full > 0.0:
        cost = (runs.figure[lane, c.PAID] - runs.mark[lane, c.PAID]) / full
    found = -(weights[0] * latency + weights[1] * cost + weights[2] * misses)
    if weights[3] != 0.0:
        found += weights[3] * worth_since(work, runs, lane)
    return found


@compiled
def deployed_rfrt(runs: Runs, lane: int) -> float:
    """The sum of the last RFRT of all functions that have instances and have been asked."""
    total = 0.0
    for function in range(runs.of.shape[1]):
        if runs.of[lane, function, c.INSTANCES] > 0 and runs.of[lane, function, c.SEEN] > 0:
            total += runs.rate[lane, function, c.LAST_RFRT]
    return total
