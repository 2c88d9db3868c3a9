"""Episodes in which a vector model drives the simulated plugin, and what its decisions were worth.

A course hands out workloads by seed: generated jobs on one given cluster, or on clusters of mixed sizes
that are generated too. An episode is one workload, from its first decision to its last departure. The
reward of a decision is known when its task has ended: minus the time the task took and the time by which
its start held up others on the node, in units of what the task takes alone on a node of speed 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from proreus.kernels.arrays import F64, Bool
from proreus.model.decision import Decision, Delay, Place, action_count
from proreus.model.experience import Experience
from proreus.model.node import Node, Pace
from proreus.model.pod import Pod
from proreus.model.resources import Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.volcano import volcano_nodes, volcano_workload
from proreus.worlds.pods.encoding.decision import simulator_vector
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.vector.model import VectorModel, draw_of
from proreus.worlds.pods.policies.vector.plugin import VolcanoPlugin, plugin_scores
from proreus.worlds.pods.policies.vector.refusals import RefusalMemory
from proreus.worlds.pods.simulation.outcome import PodsOutcome
from proreus.worlds.pods.simulation.world import PodsWorld
from proreus.worlds.pods.state.compile import Compiled, compile_workload
from proreus.worlds.pods.state.observation import PodObservation

_HELD_UP = 3.0
"""Weight of the seconds that a start holds up others: they count for the last to end, too."""
_UNFINISHED = 10.0
"""The worth of a task that never ended, in the same units as the others, negative."""
Way = Literal["likeliest", "drawn", "masked"]
"""How a model is asked: through the plugin for its likeliest action or for a drawn one, or with a mask."""
_BUSIEST = 2.0
"""Tasks per node of generated clusters, at most: often more than there are empty nodes."""
RULES = ("binpack", "fgd", "kube", "kube_plus", "round_robin", "worst_fit")
"""Rules that models are compared with; they see the whole cluster, not the vector alone."""


@dataclass(frozen=True)
class Course:
    """Where workloads come from."""

    nodes: tuple[Node, ...] = ()
    """The cluster; empty: one is generated for every seed."""
    sizes: tuple[int, ...] = (7, 13, 25, 50, 100)
    """How many nodes generated clusters have."""

    def compiled(self, seed: int) -> Compiled:
        """The workload of a seed."""
        return _compiled(self, seed)


@lru_cache(maxsize=256)
def _compiled(course: Course, seed: int) -> Compiled:
    if course.nodes:
        return compile_workload(volcano_workload(seed, course.nodes))
    nodes = volcano_nodes(seed, course.sizes[seed % len(course.sizes)])
    return compile_workload(volcano_workload(seed, nodes, _BUSIEST))


def play(
    model: VectorModel, compiled: Compiled, draws: np.random.Generator, *, masked: bool = False
) -> Experience:
    """One episode with drawn actions, and what each was worth.

    Masked, the model is told where the task may go and can do nothing else; the simulator's plugin does not
    tell, and what it then names in vain is decided by least-requested. Nodes that refused such a task before
    are then out of the question, as in the service.
    """
    world = PodsWorld(compiled)
    actions = action_count(len(compiled.workload.nodes))
    plugin = VolcanoPlugin("learner", lambda state: 0)
    states: list[F64] = []
    chosen: list[tuple[int, float]] = []
    pods: list[int] = []
    held_up: list[float] = []
    masks: list[Bool] = []
    everything = np.ones(actions, dtype=np.bool_)
    refusals = RefusalMemory(len(compiled.workload.nodes))
    while (observation := world.next_decision()) is not None:
        legal = observation.refusals() == 0
        if not legal.any():
            world.apply(Delay())
            continue
        state = simulator_vector(observation)
        mask = placements(legal) if masked else refusals.welcome("", state)
        action, log_prob = model.decide(state, actions, mask, float(draws.random()))
        refusals.answered("", state, action)
        decision = plugin.choose(observation, legal, plugin_scores(action, len(legal)))
        states.append(state)
        chosen.append((action, log_prob))
        pods.append(observation.pod)
        held_up.append(_held_up(observation, world, decision.node))
        masks.append(everything if mask is None else mask)
        world.apply(decision)
    taken = world.run.finished[pods] - world.run.arrival[pods]
    alone = np.array([alone_seconds(compiled.workload.pods[pod]) for pod in pods])
    rewards = -(taken + _HELD_UP * np.array(held_up)) / alone
    ended = np.zeros(len(pods), dtype=np.bool_)
    ended[-1:] = True
    return Experience(
        states=np.array(states).reshape(len(pods), -1),
        actions=np.array([action for action, _ in chosen], dtype=np.int64),
        rewards=np.where(np.isfinite(rewards), rewards, -_UNFINISHED),
        dones=ended,
        log_probs=np.array([log_prob for _, log_prob in chosen]),
        greedy=np.zeros(len(pods), dtype=np.bool_),
        model_version=0,
        actions_dim=actions,
        masks=np.array(masks).reshape(len(pods), actions),
    )


def placements(legal: Bool) -> Bool:
    """bool[2n + 2]: placing on the legal nodes and nothing else; legal: bool[n]."""
    return np.concatenate((legal, np.zeros(len(legal) + 2, dtype=np.bool_)))


def _held_up(observation: PodObservation, world: PodsWorld, node: int) -> float:
    """Seconds that starting one more pod on the node adds to those that still start there."""
    seconds = 0.0
    pod = int(observation.state.first[node])
    while pod >= 0:
        if math.isnan(world.run.remaining[pod]):
            seconds += observation.compiled.workload.nodes[node].pace.start_extra
        pod = int(observation.state.following[pod])
    return seconds


@lru_cache(maxsize=4096)
def _alone(pod: Pod) -> float:
    room = Resources(pod.spec.cpu_limit + 1000, pod.spec.requests.memory, pods=1)
    node = Node("alone", room, gpu_count=pod.spec.gpu.count, pace=Pace(1.0, 6.0, 2.5, 2.0))
    workload = Workload("alone", (node,), (pod,), ticked=True)
    return float(simulate(compile_workload(workload), make_policy("first_fit")).measures["jct_mean"])


def alone_seconds(pod: Pod) -> float:
    """What a task takes alone on a large node of speed 1."""
    return _alone(Pod("task", pod.spec, 1.0, pod.duration))


class MaskedModel:
    """A policy: the model's likeliest action where it is told which nodes are legal."""

    name = "masked"

    def __init__(self, model: VectorModel) -> None:
        self._model = model

    def decide(self, observation: PodObservation) -> Decision:
        """Place on the node with the highest bid; delay where the task may go nowhere."""
        legal = observation.refusals() == 0
        if not legal.any():
            return Delay()
        mask = placements(legal)
        action, _ = self._model.decide(simulator_vector(observation), len(mask), mask, -1.0)
        return Place(action)

    def fresh(self, seed: int) -> MaskedModel:
        """Itself: it remembers nothing."""
        return self


def drive(model: VectorModel, compiled: Compiled, way: Way) -> PodsOutcome:
    """An episode as a service would serve it."""
    if way == "masked":
        return simulate(compiled, MaskedModel(model))
    actions = action_count(len(compiled.workload.nodes))

    refusals = RefusalMemory(len(compiled.workload.nodes))

    def predict(state: F64) -> int:
        draw = draw_of(0, 1, state) if way == "drawn" else -1.0
        action = model.decide(state, actions, refusals.welcome("", state), draw)[0]
        refusals.answered("", state, action)
        return action

    return simulate(compiled, VolcanoPlugin("model", predict))


@lru_cache(maxsize=1024)
def _by_rule(course: Course, rule: str, seed: int) -> tuple[float, float]:
    measures = simulate(course.compiled(seed), make_policy(rule)).measures
    return float(measures["jct_mean"]), float(measures["makespan"])


@lru_cache(maxsize=16)
def strongest_rule(course: Course, seeds: tuple[int, ...]) -> str:
    """The rule with the shortest mean completion over these seeds."""
    return min(RULES, key=lambda rule: sum(_by_rule(course, rule, seed)[0] for seed in seeds))


def gains(model: VectorModel, course: Course, seeds: tuple[int, ...], way: Way) -> F64:
    """float64[seeds, 2]: by how many percent mean completion and makespan are below the strongest rule's."""
    rule = strongest_rule(course, seeds)
    outcomes = [drive(model, course.compiled(seed), way).measures for seed in seeds]
    measured = np.array([(measures["jct_mean"], measures["makespan"]) for measures in outcomes])
    return 100.0 * (1.0 - measured / np.array([_by_rule(course, rule, seed) for seed in seeds]))
