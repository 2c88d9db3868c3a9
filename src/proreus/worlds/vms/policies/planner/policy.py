"""The planner as a policy: a base rule, overruled where another place is ahead of its choice in futures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from proreus.kernels.arrays import F64
from proreus.policies.planner import Effort, lead
from proreus.policies.protocol import Explanation
from proreus.worlds.vms.model import Full
from proreus.worlds.vms.policies.adaptive import AdaptiveVmPolicy
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.policies.explanation import place_name, told
from proreus.worlds.vms.policies.planner.candidates import candidates
from proreus.worlds.vms.policies.planner.demand import LEAST_SEEN, ObservedDemand
from proreus.worlds.vms.policies.planner.futures import Board, VmFuture, new_board, play_future
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import Servers

HORIZON = 100
"""Machines of a future."""
_FIRST_LOOK = 4
"""Where so many futures tell no places apart, further ones are left out."""
_FEWEST = 2
"""Futures that tell anything of their spread."""
_SURE = 2.0
"""Standard errors that a place must be ahead by, to overrule the base."""
_OUTCOMES: dict[Full, str] = {
    "wait": "seconds waited in a future, mean, negative",
    "reject": "machines turned away in a future, mean, negative",
    "end": "machines placed in a future, mean",
}


@dataclass
class _Table:
    """What futures of one cluster are played with."""

    servers: Servers
    settled: VmRulePolicy
    """The base, as it decides in this cluster."""
    rule: VmRule
    """The same, for the futures alone."""
    board: Board


@dataclass
class VmPlanner:
    """Decides as its base does, unless futures say that another place is better."""

    name: str
    base: VmRulePolicy | AdaptiveVmPolicy
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    clock: Callable[[], float] = perf_counter
    _demand: ObservedDemand | None = field(default=None, init=False, repr=False)
    _table: _Table | None = field(default=None, init=False, repr=False)

    def fresh(self, seed: int) -> VmPlanner:
        """The same planner, for other runs."""
        return replace(self, base=self.base.fresh(seed), seed=seed)

    def decide(self, observation: VmObservation) -> int:
        """The place that is surely ahead in the futures, else the base's."""
        return _best(*self._thought(observation))

    def explain(self, observation: VmObservation) -> Explanation:
        """The decision; per place what the futures came to, and how many of them put the choice ahead.

        The futures of a machine are drawn from a seed of their own, so asking changes nothing.
        """
        places, values = self._thought(observation)
        if values.size == 0:
            why, explanation = self._why_none(observation, places), self.base.explain(observation)
            note = f"As {self.base.name} decides; no future was played ({why}). {explanation.note}"
            return replace(explanation, policy=self.name, note=note)
        chosen, means = _best(places, values), values.mean(axis=1).tolist()
        what = _OUTCOMES[observation.treatment.full]
        scores = {place: {what: round(mean, 2)} for place, mean in zip(places, means, strict=True)}
        return told(self.name, observation, chosen, scores, self._note(places, values, chosen))

    def _note(self, places: list[int], values: F64, chosen: int) -> str:
        ours = values[places.index(chosen)]
        next_best = max(
            (place for place in places if place != chosen),
            key=lambda place: float(values[places.index(place)].mean()),
        )
        difference = ours - values[places.index(next_best)]
        better, telling = int((difference > 0).sum()), int((difference != 0).sum())
        agree = "As" if chosen == places[0] else "Other than"
        note = f"{agree} {self.base.name} decides, which plays the {values.shape[1]} futures of each place. "
        return note + lead(place_name(next_best), better, telling)

    def _why_none(self, observation: VmObservation, places: list[int]) -> str:
        """Why no future was played of these places."""
        if observation.past is None:
            return "nothing is known of the machines before"
        if (seen := observation.past.flavour.size) < LEAST_SEEN:
            return f"machines seen so far: {seen}; futures are drawn from {LEAST_SEEN} on"
        if len(places) == 1:
            return "one place alone comes into question"
        return f"the {self.effort.deadline:g} ms of a decision were over"

    def _thought(self, observation: VmObservation) -> tuple[list[int], F64]:
        """(places that come into question, the base's first; [places, futures] what came of each)."""
        since, past, table = self.clock(), observation.past, self._at(observation)
        choice = table.settled.decide(observation)
        places = [choice]
        if past is not None:
            if self._demand is None or not self._demand.belongs_to(past):
                self._demand = ObservedDemand(past.run)
            self._demand.see(observation, past)
            if past.flavour.size >= LEAST_SEEN:
                places = candidates(observation, table.settled.rule, choice)
            if len(places) > 1:
                return places, self._values(observation, self._demand, places, since)
        return [choice], np.zeros((1, 0))

    def _values(
        self, observation: VmObservation, demand: ObservedDemand, places: list[int], since: float
    ) -> F64:
        """[places, futures]: every place in the same futures, until there are enough or time is up."""
        table, past = self._at(observation), observation.past
        assert past is not None, "asked for only where something is told of it"
        random = np.random.default_rng((self.seed, past.run, past.machine))
        outlook = demand.outlook(observation, past)
        rows: list[list[float]] = []
        for _ in self.effort.steps(self.clock, since):
            future = outlook.future(HORIZON, random)
            if future.flavour.size > table.board.place.size:
                table.board = new_board(observation.servers, observation.flavours, 2 * future.flavour.size)
            rows.append([self._played(table, observation, future, place) for place in places])
            if len(rows) == self.effort.futures:
                break
            if len(rows) == _FIRST_LOOK and all(len(set(row)) == 1 for row in rows):
                break
        return np.array(rows).reshape(len(rows), len(places)).T

    def _played(self, table: _Table, observation: VmObservation, future: VmFuture, place: int) -> float:
        """What comes of a place; every future begins with what the base remembers of the cluster."""
        table.rule.lately[:] = table.settled.rule.lately
        return float(play_future(table.board, observation.servers, table.rule, future, place))

    def _at(self, observation: VmObservation) -> _Table:
        """For the cluster at hand; another one has servers of its own."""
        servers, flavours = observation.servers, observation.flavours
        if self._table is None or self._table.servers is not servers:
            settled = self.base
            if isinstance(settled, AdaptiveVmPolicy):
                settled = settled.under(observation.treatment, servers.capacity)
            board = new_board(servers, flavours, 2 * HORIZON)
            self._table = _Table(servers, settled, settled.new_rule(), board)
        return self._table


def _best(places: list[int], values: F64) -> int:
    """The place that is furthest ahead of the first, if it surely is."""
    futures = values.shape[1]
    if futures < _FEWEST:
        return places[0]
    gains = values - values[0]
    means, errors = gains.mean(axis=1), gains.std(axis=1, ddof=1) / np.sqrt(futures)
    means[means <= _SURE * errors] = 0.0
    return places[int(means.argmax())]
