"""The planner: `learned`, overruled where futures say that another number of instances is cheaper.

At every decision it draws futures of the load from the forecast, plays each of a dozen totals through all of
them in the fluid model, and takes the one that is cheapest in expectation and in the worst tenth. Forecast,
strain, losses and how a total is shared out are those of `learned`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Self

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.policies.planner import Effort, lead
from proreus.policies.protocol import Explanation, Verdict
from proreus.worlds.inference.model.service import AS_MANY_AGAIN
from proreus.worlds.inference.policies.load_futures import (
    Grid,
    Outlook,
    chances_of,
    drawn_loads,
    grid_of,
)
from proreus.worlds.inference.policies.reserve import (
    M_ENDED,
    M_EXPOSURE,
    M_MET,
    ReserveNet,
    foreseen_of,
    loss_rate,
)
from proreus.worlds.inference.policies.reserve_controller import Asked, Leaning, Reserve
from proreus.worlds.inference.policies.rollouts import MISSED, PAID, Situation, play_futures
from proreus.worlds.inference.state.fluid import SERVICE, STEP
from proreus.worlds.inference.state.observation import InferenceObservation

FUTURES = 32
_BATCH = 8
"""Futures that are played between two looks at the clock."""
_OFFSETS = (-3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 8)
"""Candidates around what `learned` would hold, in twenty-fifths of it where that is more than an instance."""
_OF_MANY = 25
_IN_A_START = 4
"""Decisions that a future has within a start."""
_PARTS = np.array([0.25, 0.6, 1.0, 2.4])
"""Lengths of prompts around their mean, where only that is known."""
_LONGEST_OWN = 1.0
"""Seconds of a prompt by itself; what takes longer is late whatever is held."""
_WORST = 0.1
"""Share of the futures that are the worst."""
_NOISE_BASE, _NOISE, _NOW = 0.01, 10, 1
"""What the forecast's input adds to the noise, and its place and that of the latest load."""


@dataclass(frozen=True)
class Prices:
    """What is weighed against instance-seconds; chosen on runs for training and validation."""

    worst: float = 0.05
    """Of the worst tenth, beside the mean."""
    within: float = 0.1
    """What a missed request costs while the error budget is not used up, where one beyond it costs 1."""
    saved: float = 0.5
    """Share of what was saved of the error budget that three starts may use up."""
    change: float = 150.0
    """Instance-seconds for every instance that is started or drained now: it may turn out to be a turn."""
    tail: float = 0.3
    """Of what the forecast says beyond its 90th percentile, how much is believed: it was fitted to wilder
    loads than most."""
    apart: float = 0.3
    """Instances' worth that is lost where there are two pools: the fluid model knows one."""
    more: float = 0.8
    """How far ahead of what `learned` would hold a larger total must be, in the spread of the difference from
    future to future. Not in its standard error: what the model does not know, more futures do not tell."""
    fewer: float = 1.05
    """The same of a smaller one: what is missed is not mended within a start, what is held too much is."""


@dataclass(frozen=True, eq=False)
class Thought:
    """What came of the candidates."""

    totals: I64
    """[candidates]"""
    costs: F64
    """[futures, candidates] weighed instance-seconds."""
    scores: F64
    """[candidates] by which one is chosen."""
    base: int
    """Place of what `learned` would hold."""
    chosen: int
    """Place of what is held."""
    least: int = 0
    """Total below which nothing may be chosen, whatever futures say."""

    @property
    def expected(self) -> F64:
        """[candidates]"""
        return np.asarray(self.costs.mean(axis=0))

    @property
    def worst(self) -> F64:
        """[candidates] mean of the worst tenth of the futures."""
        return worst_tenth(self.costs)


def worst_tenth(costs: F64) -> F64:
    """[candidates] mean over the tenth of the futures that cost most, one at least."""
    count = max(math.ceil(_WORST * len(costs)), 1)
    return np.asarray(np.sort(costs, axis=0)[-count:].mean(axis=0))


class Planner(Reserve):
    """Plays futures before it orders."""

    def __init__(
        self,
        name: str,
        net: ReserveNet,
        leaning: Leaning | None = None,
        effort: Effort | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(name, net, leaning)
        self.effort, self.seed = effort or Effort(FUTURES), seed
        self.prices = Prices()
        self.clock: Callable[[], float] = perf_counter
        self.thought: Thought | None = None
        """Of the last decision; None: there was nothing to choose from."""

    def fresh(self, seed: int) -> Self:
        """Without memory, drawing from that seed."""
        made = type(self)(self.name, self._net, self._leaning, self.effort, seed)
        made.prices, made.clock = self.prices, self.clock
        return made

    def total(self, seen: InferenceObservation, asked: Asked) -> tuple[int, dict[str, float]]:
        """What is cheapest in the futures, where it is surely ahead of what `learned` would hold."""
        since = self.clock()
        base, why = super().total(seen, asked)
        self.thought = None
        totals, place = _candidates(seen, base)
        if len(totals) > 1:
            self.thought = self._thought(seen, asked, totals, place, since)
        if self.thought is None or self.thought.chosen == place:
            return base, why
        thought = self.thought
        return int(totals[thought.chosen]), {**why, "as learned": float(base)}

    def _thought(
        self, seen: InferenceObservation, asked: Asked, totals: I64, base: int, since: float
    ) -> Thought | None:
        each = max(round(min(seen.interval, 1e6) / STEP), 1)
        grid = grid_of(asked.demand.steps, each)
        begin = self._situation(seen, asked, grid)
        chances = chances_of(grid, self.effort.futures, self.seed)
        loads = drawn_loads(self._outlook(asked), grid, chances)
        pairs = np.stack([totals, np.full_like(totals, totals[base])], axis=1).astype(np.float64)
        played: list[F64] = []
        for _ in self.effort.steps(self.clock, since):
            part = slice(_BATCH * len(played), _BATCH * (len(played) + 1))
            played.append(play_futures(self._net, begin, loads[part], chances.losses[part], pairs))
            if part.stop >= self.effort.futures:
                break
        if not played:
            return None
        requests = begin.requests * STEP * loads.sum(axis=1)
        outcome = np.concatenate(played)
        costs = self._costs(outcome, requests[: len(outcome)], asked)
        if not np.isfinite(costs).all():
            return None
        least = _least(seen, asked, int(totals[base]))
        return self._chosen(seen, totals, costs, base, least)

    def _outlook(self, asked: Asked) -> Outlook:
        foreseen = foreseen_of(self._net, asked.series, asked.demand.steps)
        noise = max(math.exp(foreseen.features[_NOISE]) - _NOISE_BASE, 0.0)
        now = float(foreseen.features[_NOW])
        return Outlook(foreseen.level, now, foreseen.quantiles, noise, self.prices.tail)

    def _situation(self, seen: InferenceObservation, asked: Asked, grid: Grid) -> Situation:
        demand, memory, strain = asked.demand, self._known.memory, float(asked.told[3])
        latest = float(asked.series[-3:].mean()) * strain
        busy = 1.0 if demand.backlog > demand.active else latest / max(demand.active * SERVICE.speed, 0.01)
        computed = 1.0 - (self._known.found or 0.0)
        rates = np.nan_to_num(seen.history, nan=0.0, posinf=1e12, neginf=0.0).sum(axis=0)
        prompt = float(rates[1]) * computed / max(float(rates[0]), 1e-9) / seen.abilities[0].prompt_tokens
        pools, seconds = len(seen.pools), demand.steps * demand.interval
        return Situation(
            demand=demand,
            memory=memory,
            series=asked.series,
            ready=np.array([ready for pool in seen.pools for ready in pool.starting], dtype=np.float64),
            busy=min(busy, 1.0),
            strain=strain,
            apart=self.prices.apart * (pools - 1),
            own=np.minimum(prompt * _PARTS, _LONGEST_OWN),
            requests=float(rates[0]) / max(float(asked.series.sum()), 1e-9),
            start_seconds=float(seen.start_seconds),
            each=grid.each,
            stride=max(round(grid.ahead / _IN_A_START), 1),
            least=float(max(seen.limits.least, 1) * pools),
            most=float(seen.limits.most_in_total),
            change=float(seen.steps.scale * pools),
            loss_rate=float(loss_rate(memory, demand.life, seconds)),
        )

    def _costs(self, outcome: F64, requests: F64, asked: Asked) -> F64:
        """[futures, candidates] weighed as `weighed_gpu_hours` weighs: as many instance-seconds again for
        each 5 % of requests that are missed beyond the 1 % that may be.

        The run goes on after the future: what was saved of the 1 % is not for the next minutes alone, and
        what is missed within it counts for something.
        """
        prices, memory = self.prices, self._known.memory
        ended, missed = float(memory[M_ENDED]), float(memory[M_ENDED] - memory[M_MET])
        paid, late = outcome[:, :, PAID], outcome[:, :, MISSED]
        everybody = ended + requests.mean()
        each = (float(memory[M_EXPOSURE]) + float(paid.mean())) / max(everybody, 1e-9)
        price = asked.demand.caution * each / AS_MANY_AGAIN
        free = max(0.01 * float(requests.mean()) + prices.saved * (0.01 * ended - missed), 0.0)
        usual = late.mean(axis=0)
        weighed = prices.within * np.minimum(usual, free) + np.maximum(usual - free, 0.0)
        beyond = max(missed / max(everybody, 1e-9) - 0.01, 0.0)
        return np.asarray(
            paid * (1.0 + beyond / AS_MANY_AGAIN) + price * late * weighed / np.maximum(usual, 1e-9)
        )

    def _chosen(self, seen: InferenceObservation, totals: I64, costs: F64, base: int, least: int) -> Thought:
        """The least score of so many or more; of equal ones the fewest changes, then the fewest instances."""
        prices, coming = self.prices, sum(pool.coming for pool in seen.pools)
        changes = np.abs(totals - coming)
        mean = costs.mean(axis=0)
        scores = mean + prices.worst * (worst_tenth(costs) - mean)
        scores = scores + prices.change * self._leaning.patience * changes
        allowed = np.where(totals >= least, np.round(scores, 6), np.inf)
        best = int(np.lexsort((totals, changes, allowed))[0])
        spread = float((costs[:, best] - costs[:, base]).std())
        proof = prices.fewer if totals[best] < totals[base] else prices.more
        sure = scores[best] < scores[base] - proof * spread
        return Thought(totals, costs, scores, base, best if sure else base, least)

    def explain(self, observation: InferenceObservation, /) -> Explanation:
        """The decision, and what each candidate costs in the futures; asking changes nothing."""
        explanation, twin = super().explain(observation), copy.deepcopy(self)
        twin.decide(observation)
        thought = twin.thought
        if thought is None:
            return replace(explanation, note=f"{explanation.note} No future was played.")
        hours = zip(
            thought.totals.tolist(),
            (thought.expected / 3_600.0).tolist(),
            (thought.worst / 3_600.0).tolist(),
            strict=True,
        )
        candidates = tuple(
            Verdict(f"{total} in all", "", {"expected cost": mean, "worst tenth": worst}, float(total))
            for total, mean, worst in hours
        )
        return replace(
            explanation,
            verdicts=(*explanation.verdicts, *candidates),
            note=f"{explanation.note} {_note(thought)}",
        )


def _candidates(seen: InferenceObservation, base: int) -> tuple[I64, int]:
    """(totals that steps and limits allow around what `learned` would hold, its own place)."""
    coming, pools = sum(pool.coming for pool in seen.pools), len(seen.pools)
    change = seen.steps.scale * pools
    low = min(max(coming - change, max(seen.limits.least, 1) * pools), coming)
    high = max(min(coming + min(change, seen.room), seen.limits.most_in_total), low)
    unit = max(base // _OF_MANY, 1)
    own = min(max(base, low), high)
    around = {min(max(own + unit * offset, low), high) for offset in _OFFSETS}
    totals = np.array(sorted(around | {min(max(coming, low), high)}), dtype=np.int64)
    return totals, int(np.searchsorted(totals, own))


def _least(seen: InferenceObservation, asked: Asked, own: int) -> int:
    """Fewest that may be chosen, whatever futures say, where `learned` would hold `own`.

    Not fewer than it says there must be: that is for rises so rare that a few dozen futures hardly hold them,
    so they are no evidence against it. And none fewer than it would hold while any start: what is ordered in
    one interval and given up in the next never comes.
    """
    return own if any(pool.starting for pool in seen.pools) else min(asked.must, own)


def _note(thought: Thought) -> str:
    chosen, base, totals = thought.chosen, thought.base, thought.totals
    futures, cheapest = len(thought.costs), int(np.argmin(thought.scores))
    if chosen == base and cheapest != base:
        better = int((thought.costs[:, cheapest] < thought.costs[:, base]).sum())
        other = f"{totals[cheapest]} is cheaper on average and in {better} of {futures} futures"
        why = (
            f"but {thought.least} there must be"
            if totals[cheapest] < thought.least
            else "but not by more than futures differ"
        )
        return f"As learned, {totals[base]}: {other}, {why}. Costs are in instance-hours."
    way = (
        f"As learned, {totals[base]}"
        if chosen == base
        else f"Other than learned, which would hold {totals[base]}"
    )
    others = [place for place in range(len(totals)) if place != chosen]
    next_best = min(others, key=lambda place: float(thought.scores[place]))
    difference = thought.costs[:, next_best] - thought.costs[:, chosen]
    told = lead(str(totals[next_best]), int((difference > 0).sum()), int((difference != 0).sum()))
    cheap = "cheapest" if chosen == cheapest else "cheapest of what may be chosen"
    return f"{way}: {cheap} in {futures} futures, in instance-hours. {told}"
