"""The k8s simulator's `ppo` plugin, simulated: a service's answers turned into node scores.

For every task the plugin asks the service about the k8s simulator's vector and gets an action. With n nodes:

    a < n        the named node scores 100, the others 0
    n <= a < 2n  node a - n scores 50 (nothing is evicted), the others 0
    a = 2n       every node scores -10 (nothing is delayed)
    a = 2n + 1   every node scores -100 (nothing is rejected)

The simulator's configuration for the plugin also counts least-requested, from 0 to 100, once; the plugin's
own score counts at three hooks, so whichever node it names wins if the task may go there. If it may not, or
if no node is named, least-requested decides alone, as of the start of the session (the second): within a
session everything then goes to the same node until it is full. Equal scores go to the node with most CPU,
then to the first in order.

The simulator's own plugin asks once per (task, node) pair, with the same vector for all nodes that the task
may go to, in their order, by sixteen workers at once; and it scores each node by the answer to its own
question. This plugin asks once per task, unless told to ask for every pair.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import F64, Bool
from proreus.model.decision import Decision, Delay, Place
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import COL_CPU, COL_MEMORY
from proreus.policies.protocol import Explanation
from proreus.worlds.pods.encoding.decision import simulator_vector
from proreus.worlds.pods.policies.explanation import explained
from proreus.worlds.pods.state.observation import PodObservation

Predict = Callable[[F64], int]
"""A vector in, an action out: a model in memory, or a client of a service."""

PLACE_SCORE, PREEMPT_SCORE, DELAY_SCORE, REJECT_SCORE = 100.0, 50.0, -10.0, -100.0
_HOOKS = 3.0
_FULL = 100.0


@dataclass(frozen=True)
class EveryPair:
    """One question for each node that a task may go to."""

    askers: int = 1
    """So many questions are on their way at once, and any of them may be the next to arrive. With 1 they come
    in the order of the nodes, with as many as there are nodes in any order."""
    seed: int = 0
    """Of that order."""

    def arrivals(self, questions: int, random: np.random.Generator) -> list[int]:
        """The questions, numbered by the order of their nodes, as they arrive."""
        on_their_way = list(range(min(self.askers, questions)))
        arrived = []
        for sent in range(len(on_their_way), len(on_their_way) + questions):
            next_one = int(random.integers(len(on_their_way))) if len(on_their_way) > 1 else 0
            arrived.append(on_their_way[next_one])
            if sent < questions:
                on_their_way[next_one] = sent
            else:
                on_their_way.pop(next_one)
        return arrived


class VolcanoPlugin:
    """A policy whose decisions are somebody else's predictions."""

    def __init__(self, name: str, predict: Predict, *, every_pair: EveryPair | None = None) -> None:
        self.name = name
        self._predict = predict
        self._every_pair = every_pair
        self._random = np.random.default_rng(0 if every_pair is None else every_pair.seed)
        self._session: tuple[int, float] | None = None
        self._in_use = np.zeros((0, 3))

    def fresh(self, seed: int) -> VolcanoPlugin:
        """The same predictions, for another run."""
        return VolcanoPlugin(self.name, self._predict, every_pair=self._every_pair)

    def decide(self, observation: PodObservation) -> Decision:
        """Ask, score, take the best node; delay where the task may go nowhere."""
        legal = observation.refusals() == 0
        if not legal.any():
            return Delay()
        return self.choose(observation, legal, self._scores(simulator_vector(observation), legal))

    def _scores(self, state: F64, legal: Bool) -> F64:
        """float64[N]: what the answers give to each node."""
        nodes = len(legal)
        if self._every_pair is None:
            return plugin_scores(self._predict(state), nodes)
        scores = np.zeros(nodes)
        candidates = np.flatnonzero(legal).tolist()
        for k in self._every_pair.arrivals(len(candidates), self._random):
            scores[candidates[k]] = plugin_scores(self._predict(state), nodes)[candidates[k]]
        return scores

    def choose(self, observation: PodObservation, legal: Bool, scores: F64) -> Place:
        """The node that the simulator takes after such scores; legal: bool[N], at least one of them."""
        totals = np.where(legal, _HOOKS * scores + self._least_requested(observation), -np.inf)
        best = np.flatnonzero(totals == totals.max())
        cpu = observation.cluster.nodes.allocatable[best, COL_CPU]
        return Place(int(best[np.argmax(cpu)]))

    def _least_requested(self, observation: PodObservation) -> F64:
        """float64[N], 0 to 100: what is not asked for of CPU, memory and GPUs, with the task on the node."""
        cluster = observation.cluster
        session = (id(observation.compiled), observation.now)
        if session != self._session:
            self._session, self._in_use = session, _in_use(observation)
        request = cluster.classes.request[observation.pod_class]
        gpus = (
            cluster.classes.gpu_num[observation.pod_class] * cluster.classes.gpu_milli[observation.pod_class]
        )
        asked = np.array([request[COL_CPU], request[COL_MEMORY], gpus], dtype=np.float64)
        room = _room(observation)
        counts = asked > 0
        shares = ((self._in_use + asked) / np.maximum(room, 1.0))[:, counts]
        return _FULL * (1.0 - shares.mean(axis=1)) if counts.any() else np.zeros(len(room))

    def explain(self, observation: PodObservation) -> Explanation:
        """The scores behind the decision."""
        decision = self.decide(observation)
        action = self._predict(simulator_vector(observation))
        nodes = len(observation.cluster.nodes.gpu_count)
        totals = _HOOKS * plugin_scores(action, nodes) + self._least_requested(observation)
        allowed = np.flatnonzero(observation.refusals() == 0).tolist()
        scores = {n: {"total": float(totals[n])} for n in allowed}
        note = (
            f"The service answered action {action}; least-requested decides where that names no legal node."
        )
        return explained(self, observation, decision, scores, note)


def plugin_scores(action: int, nodes: int) -> F64:
    """float64[N]: the plugin's score of every node after this answer; an answer out of range scores 0."""
    scores = np.zeros(nodes)
    if 0 <= action < nodes:
        scores[action] = PLACE_SCORE
    elif nodes <= action < 2 * nodes:
        scores[action - nodes] = PREEMPT_SCORE
    elif action == 2 * nodes:
        scores[:] = DELAY_SCORE
    elif action == 2 * nodes + 1:
        scores[:] = REJECT_SCORE
    return scores


def _room(observation: PodObservation) -> F64:
    nodes = observation.cluster.nodes
    gpus = nodes.gpu_count * GPU_WHOLE
    return np.column_stack((nodes.allocatable[:, [COL_CPU, COL_MEMORY]], gpus)).astype(np.float64)


def _in_use(observation: PodObservation) -> F64:
    """float64[N, 3]: milli-CPU, bytes and milli-GPU in use."""
    free = observation.state.free[:, [COL_CPU, COL_MEMORY]]
    left = observation.state.gpu_left
    devices = np.arange(left.shape[1]) < observation.cluster.nodes.gpu_count[:, None]
    gpus = np.where(devices, left, 0).sum(axis=1)
    in_use: F64 = _room(observation) - np.column_stack((free, gpus))
    return in_use
