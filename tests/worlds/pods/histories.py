"""Random histories of an open cluster, told to it and to a plain list of what is there.

A `History` applies every event twice: to the `OpenCluster` under test and to Python lists. `fresh` compiles
what the lists hold, as a closed workload, with the demand that the renewal rule says.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from proreus.model.decision import Place, Preempt
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import NodeAffinity, NodeTerm, Pod, PodSpec
from proreus.model.resources import MIB, Resources
from proreus.model.selectors import Operator, Requirement, Selector
from proreus.model.workload import DisruptionBudget, Workload
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.state.compile import compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.demand import demand_of
from proreus.worlds.pods.state.fragmentation import node_fragment
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.open.values import Placed, Unlisted
from proreus.worlds.pods.state.placement import place
from tests.oracles.kube_preemption import covers
from tests.worlds.pods import strategies
from tests.worlds.pods.strategies import FLAVOURS

IMAGES = ("web:1", "db", "registry/gpu:latest")
_ON_NODES = ("web:1", "db:latest", "registry/gpu:latest")
NAMES = tuple(f"node{i}" for i in range(9))


def _named(*names: str) -> NodeAffinity:
    by_name = Selector((Requirement("metadata.name", Operator.IN, names),))
    return NodeAffinity(required=(NodeTerm(fields=by_name),))


_PREFERENCES = (
    _named("node1", "node2"),
    _named("node7"),
    NodeAffinity(
        preferred=(
            (10, NodeTerm(Selector((Requirement("disk", Operator.EXISTS),)))),
            (5, NodeTerm(fields=Selector((Requirement("metadata.name", Operator.IN, ("node3",)),)))),
        )
    ),
)


def any_node(rng: random.Random, name: str) -> Node:
    """A node with images."""
    made = strategies.node(rng.choice, 0)
    images = [(image, rng.choice((100, 900)) * MIB) for image in _ON_NODES if rng.random() < 0.5]
    return replace(made, name=name, images=tuple(images))


def any_spec(rng: random.Random) -> PodSpec:
    """A spec with one trait of `strategies`, and at times one that only an open cluster's pods have."""
    made = strategies.spec(rng.choice, FLAVOURS)
    if rng.random() < 0.4:
        images = tuple(rng.sample(IMAGES, rng.choice((1, 2))))
        made = replace(made, images=images, image_volumes=rng.choice(((), (), ("db",))))
    if rng.random() < 0.15:
        made = replace(made, node_affinity=rng.choice(_PREFERENCES))
    return replace(
        made,
        missing_claim=rng.random() < 0.05,
        terminating=rng.random() < 0.05,
        cpu_limit=rng.choice((0, 0, 3000)),
    )


@dataclass
class History:
    """An open cluster and, beside it, what it should hold."""

    rng: random.Random
    open: OpenCluster = field(default_factory=lambda: OpenCluster(most_idle=2))
    nodes: list[Node] = field(default_factory=list)
    unlisted: dict[str, Unlisted] = field(default_factory=dict)
    running: list[Placed] = field(default_factory=list)
    waiting: list[Pod] = field(default_factory=list)
    budgets: list[DisruptionBudget] = field(default_factory=list)
    menu: list[PodSpec] = field(default_factory=list)
    counted: list[PodSpec] = field(default_factory=list)
    """The pods that the demand was last taken from."""
    turnover: int = 0
    told: Counter[str] = field(default_factory=Counter)
    made: int = 0
    clock: float = 0.0
    most_nodes: int = 0

    def __post_init__(self) -> None:
        self.most_nodes = self.rng.choice(
            (2, 4, len(NAMES))
        )  # where there are few, pods have to evict others
        self.menu = [any_spec(self.rng) for _ in range(6)]
        self.add_node()

    def step(self, policies: list[PodPolicy]) -> None:
        """One random event."""
        events = (
            *((self.add_waiting,) * 4),
            *((self.add_running,) * 4),
            *((self.remove_pod,) * 3),
            *((self.add_node,) * 2),
            *((self.update_node,) * 2),
            self.remove_node,
            *((self.change_budget,) * 2),
            self.set_unlisted,
            *((self.new_spec,) * 3),
        )
        chosen = self.rng.randrange(len(events) + 8)
        if chosen < len(events):
            events[chosen]()
        else:
            self.decide(self.rng.choice(policies))

    def new_spec(self) -> None:
        """From now on pods of another kind come."""
        self.menu[self.rng.randrange(len(self.menu))] = any_spec(self.rng)

    def add_node(self) -> None:
        """A node joins, perhaps one that was there before."""
        absent = [name for name in NAMES if name not in {node.name for node in self.nodes}]
        if absent and len(self.nodes) < self.most_nodes:
            node = any_node(self.rng, self.rng.choice(absent))
            self.open.add_node(node)
            self.nodes.append(node)
            self.told["add_node"] += 1

    def update_node(self) -> None:
        """A node changes in one respect, or in none; GPUs only where no pod holds any."""
        at = self.rng.randrange(len(self.nodes))
        before = self.nodes[at]
        other = any_node(self.rng, before.name)
        free_of_gpus = not any(each.node == before.name and each.devices for each in self.running)
        unlisted_gpus = self.unlisted.get(before.name, Unlisted()).gpu_used
        changes: list[dict[str, Any]] = [
            {"labels": other.labels},
            {"taints": other.taints},
            {"unschedulable": not before.unschedulable},
            {"images": other.images},
            {"allocatable": other.allocatable},
            {"pace": other.pace},
            {},
        ]
        if free_of_gpus and not unlisted_gpus:
            changes.append({"gpu_count": other.gpu_count, "gpu_model": other.gpu_model})
        node = replace(before, **self.rng.choice(changes))
        self.open.update_node(node)
        self.nodes[at] = node
        self.told["update_node"] += 1

    def remove_node(self) -> None:
        """A node leaves, if it is not the last and no pod is on it."""
        node = self.rng.choice(self.nodes)
        if any(each.node == node.name for each in self.running):
            try:
                self.open.remove_node(node.name)
            except InputError:
                self.told["remove_node_refused"] += 1
                return
            raise AssertionError("a node with pods was removed")
        if len(self.nodes) > 1:
            self.open.remove_node(node.name)
            self.nodes.remove(node)
            self.unlisted.pop(node.name, None)
            self.told["remove_node"] += 1

    def set_unlisted(self) -> None:
        """Something else is in use on a node."""
        node = self.rng.choice(self.nodes)
        if any(each.node == node.name and each.devices for each in self.running):
            return
        gpus = tuple(self.rng.choice((0, 250)) for _ in range(node.gpu_count))
        used = Resources(cpu=self.rng.choice((0, 500)), memory=self.rng.choice((0, 300)) * MIB)
        unlisted = Unlisted(used, self.rng.choice(((), gpus)))
        self.open.set_unlisted(node.name, unlisted)
        self.unlisted[node.name] = unlisted
        self.told["set_unlisted"] += 1

    def change_budget(self) -> None:
        """A budget comes or goes."""
        if self.budgets and self.rng.random() < 0.4:
            gone = self.budgets.pop(self.rng.randrange(len(self.budgets)))
            self.open.remove_budget(gone.name, gone.namespace)
        else:
            budget = strategies.budget(self.rng.choice, self.made)
            self.open.add_budget(budget)
            self.budgets.append(budget)
            self.made += 1
        self.told["budget"] += 1

    def _new_pod(self) -> Pod:
        self.made += 1
        return Pod(f"pod{self.made}", self.rng.choice(self.menu))

    def add_waiting(self) -> None:
        """A pod comes and waits."""
        pod = self._new_pod()
        self.open.add_pod(pod)
        self.waiting.append(pod)
        self.turnover += 1
        self.told["add_waiting"] += 1

    def add_running(self) -> None:
        """A pod runs somewhere, whether or not it may: who told us must know."""
        pod, node = self._new_pod(), self.rng.choice(self.nodes)
        since = self.rng.choice((0.0, 1.0, 2.0))
        try:
            self.open.add_pod(pod, node.name, since=since)
        except InputError:  # no GPUs are left there
            assert pod.spec.gpu.count
            return
        self._runs(pod, node.name, since)
        self.turnover += 1
        self.told["add_running"] += 1

    def _runs(self, pod: Pod, node: str, since: float) -> None:
        devices = self.open.snapshot().running[-1].devices
        assert devices.bit_count() == pod.spec.gpu.count
        self.running.append(Placed(pod, node, devices, since))

    def remove_pod(self) -> None:
        """A pod goes."""
        names = [each.pod.name for each in self.running] + [pod.name for pod in self.waiting]
        if names:
            self._remove(self.rng.choice(names))

    def _remove(self, name: str) -> None:
        self.open.remove_pod(name)
        self.running = [each for each in self.running if each.pod.name != name]
        self.waiting = [pod for pod in self.waiting if pod.name != name]
        self.turnover += 1
        self.told["remove_pod"] += 1

    def decide(self, policy: PodPolicy) -> None:
        """A policy decides about a waiting pod, and it is done so."""
        if not self.waiting:
            return
        pod = self.rng.choice(self.waiting)
        observation = self.observe(pod.name)
        decision = policy.decide(observation)
        self.clock += 0.5
        match decision:
            case Place(node=n, devices=devices):
                name = observation.compiled.workload.nodes[n].name
                assert observation.refusals()[n] == 0
                self.open.bind_pod(pod.name, name, devices, self.clock)
            case Preempt(node=n):
                name = observation.compiled.workload.nodes[n].name
                victims = observation.victims(n)
                assert victims is not None
                for victim in [observation.compiled.workload.pods[p].name for p in victims[0]]:
                    self._remove(victim)
                self.open.bind_pod(pod.name, name, 0, self.clock)
                self.told["preempt"] += 1
            case _:
                return
        self.waiting.remove(pod)
        self._runs(pod, name, self.clock)
        self.told["bind"] += 1

    def observe(self, asked: Pod | str, waiting: int = 0) -> PodObservation:
        """Ask the open cluster; the demand is renewed by its rule."""
        if self.turnover and self.turnover >= len(self.counted):
            present = [each.pod for each in self.running] + self.waiting
            self.counted, self.turnover = [pod.spec for pod in present], 0
        return self.open.observe(asked, waiting)

    def fresh(self, asked: Pod, waiting: int = 0) -> PodObservation:
        """The same question to what is there, compiled now."""
        pods = [asked, *(each.pod for each in self.running), *self.waiting]
        workload = Workload("fresh", tuple(self.nodes), tuple(pods), tuple(self.budgets))
        compiled = compile_workload(workload, demand_of(Counter(self.counted).items()))
        state = empty_state(compiled.cluster)
        place_of = {node.name: n for n, node in enumerate(self.nodes)}
        for name, unlisted in self.unlisted.items():
            n, used = place_of[name], unlisted.used
            state.free[n] -= np.array([*used.base(), *[0] * (len(compiled.columns) - 6)])
            state.scored[n] += (used.cpu, used.memory)
            state.load[n, 0] += used.cpu
            for device, milli in enumerate(unlisted.gpu_used):
                state.gpu_left[n, device] -= milli
        for n, node in enumerate(self.nodes):
            left = state.gpu_left[n]
            model = compiled.cluster.nodes.gpu_model[n]
            state.fragment[n] = node_fragment(
                compiled.cluster.typical, model, state.free[n, 0], left, node.gpu_count
            )
        for p, each in enumerate(self.running, start=1):
            place(compiled.cluster, state, p, place_of[each.node], each.devices, each.since)
        for b, budget in enumerate(self.budgets):
            state.expected[b] = sum(covers(budget, pod) for pod in pods[1:])
        return PodObservation(compiled, state, new_scratch(compiled.cluster), 0, 0.0, waiting)
