"""The planner as a policy: a base rule, corrected by what futures say a place costs in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import perf_counter

import numpy as np

from proreus.kernels.arrays import F64, I64
from proreus.model.decision import Decision, Place
from proreus.policies.planner import Effort, lead
from proreus.policies.protocol import Explanation
from proreus.worlds.pods.policies.explanation import explained
from proreus.worlds.pods.policies.planner.futures import begin_future, play_on
from proreus.worlds.pods.policies.planner.plan import Plan
from proreus.worlds.pods.policies.planner.room import best_room, loss
from proreus.worlds.pods.policies.rules.choose import NOWHERE
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.state.columns import State
from proreus.worlds.pods.state.devices import LEVEL, LEVELS, shares_device
from proreus.worlds.pods.state.observation import PodObservation

LOST = "milli-GPU lost in the end"


@dataclass
class PlannerPolicy:
    """Decides as its base does, but where pods share a device: there by what is lost in the end."""

    name: str
    base: RulePolicy
    effort: Effort = field(default_factory=Effort)
    seed: int = 0
    clock: Callable[[], float] = perf_counter
    _bound: tuple[State, Plan] | None = field(default=None, init=False, repr=False)

    def fresh(self, seed: int) -> PlannerPolicy:
        """The same planner, for another run."""
        return replace(self, base=self.base.fresh(seed), seed=seed)

    def _plan(self, observation: PodObservation) -> Plan:
        """The plan of the run, after it has seen the pod and thought as long as it may."""
        since = self.clock()
        if self._bound is None or self._bound[0] is not observation.state:
            random = np.random.default_rng(self.seed)
            self._bound = (observation.state, Plan(self.effort, random, self.clock))
            self._compile(observation)
        plan = self._bound[1]
        if observation.cluster.nodes.gpu_count.any():
            plan.see(observation)
            plan.think(observation, self.base.rule_for(observation.compiled, observation.state), since)
        return plan

    def _compile(self, observation: PodObservation) -> None:
        """Play a future in which nothing comes: compiled at the first decision, which whoever has a deadline
        asks for before it counts, and not at the first plan."""
        cluster, state, scratch = observation.cluster, observation.state, observation.scratch
        rule = self.base.rule_for(observation.compiled, state)
        play_on(cluster, scratch, begin_future(cluster, state, rule, np.zeros(0, dtype=np.int64)), 0)
        best_room(cluster, state, scratch, rule, (observation.pod_class, np.zeros(LEVELS)))

    def decide(self, observation: PodObservation) -> Decision:
        """The device that costs least in the end; where none is shared, or nothing is known, the base's."""
        return self._decided(observation, self._plan(observation).worth)

    def _decided(self, observation: PodObservation, worth: F64 | None) -> Decision:
        cluster, state, c = observation.cluster, observation.state, observation.pod_class
        if worth is not None and shares_device(cluster, c):
            rule = self.base.rule_for(observation.compiled, state)
            node, devices = best_room(cluster, state, observation.scratch, rule, (c, worth))
            if node != NOWHERE:
                return Place(node, devices)
        return self.base.decide(observation)

    def explain(self, observation: PodObservation) -> Explanation:
        """The decision; per node what its best device costs in the end, and how many futures agree.

        The plan is the one that the decision itself would rest on, so that asking changes nothing.
        """
        plan = self._plan(observation)
        if plan.worth is None or not shares_device(observation.cluster, observation.pod_class):
            note = f"As {self.base.name} decides: {_why_none(plan, observation)}."
            return replace(self.base.explain(observation), policy=self.name, note=note)
        decision = self._decided(observation, plan.worth)
        rooms = self._rooms(observation, plan.worth)
        scores = {n: {LOST: round(-lost, 1)} for n, (lost, _) in rooms.items()}
        note = "The least loss is best; equal within a hundredth of a GPU, "
        note += f"{self.base.name}'s score decides. {_lead(plan, rooms, decision)}"
        return explained(self, observation, decision, scores, note.strip())

    def factors(self, observation: PodObservation, looked_at: I64, of: I64) -> dict[str, F64]:
        """What the best device of each node costs in the end; where no future was asked, the base's."""
        plan = None if self._bound is None or self._bound[0] is not observation.state else self._bound[1]
        cluster, c = observation.cluster, observation.pod_class
        if plan is None or plan.worth is None or not shares_device(cluster, c):
            return self.base.factors(observation, looked_at, of)
        nodes, milli = looked_at[of], int(cluster.classes.gpu_milli[c])
        left = observation.state.gpu_left[nodes]
        there = np.arange(left.shape[1]) < cluster.nodes.gpu_count[nodes][:, None]
        fits = there & (left >= milli)
        after = np.maximum(left - milli, 0)
        lost = np.where(fits, plan.worth[after // LEVEL] - plan.worth[left // LEVEL], np.inf)
        return {LOST: -lost.min(axis=1)}

    def _rooms(self, observation: PodObservation, worth: F64) -> dict[int, tuple[float, tuple[int, int]]]:
        """Node -> (loss, levels of the device before and after) of its best device."""
        cluster, left = observation.cluster, observation.state.gpu_left
        milli = int(cluster.classes.gpu_milli[observation.pod_class])
        rooms = {}
        for n in np.flatnonzero(observation.refusals() == 0).tolist():
            devices = [r for r in left[n, : cluster.nodes.gpu_count[n]].tolist() if r >= milli]
            best = min(devices, key=lambda r: float(loss(worth, r, milli)))
            rooms[n] = (float(loss(worth, best, milli)), (best // LEVEL, (best - milli) // LEVEL))
        return rooms


def _why_none(plan: Plan, observation: PodObservation) -> str:
    """Why no future is asked about this pod."""
    if not shares_device(observation.cluster, observation.pod_class):
        return "futures are asked where pods share a device"
    if not observation.cluster.nodes.gpu_count.any():
        return "no node has a device"
    return plan.why_none()


def _lead(plan: Plan, rooms: dict[int, tuple[float, tuple[int, int]]], decision: Decision) -> str:
    """How many futures put the choice ahead of the next best kind of place."""
    if not isinstance(decision, Place):
        return ""
    ours = rooms[decision.node][1]
    others = [room for room in rooms.values() if room[1] != ours]
    if not others:
        return "All places are alike."
    _, theirs = min(others)
    if not plan.futures:
        return "What gaps are worth is known of earlier futures; the first one from here on is still played."
    before, after = (LEVEL * level for level in theirs)
    return lead(f"a device with {before} milli left that would keep {after}", *plan.ahead(ours, theirs))
