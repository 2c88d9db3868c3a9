"""Clusters that the service keeps from one question to the next, each with the memory of its policy.

A session begins with a whole description. From then on a client sends what has changed and the generation
that it knows; the service answers with the next one. Who names another generation is told so, and so is who
names a session that is not there (the service was started again, or the session had to make room): both then
send the whole description once more. Changes that cannot be carried out end the session, so that nobody goes
on with half of them.
"""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import assert_never

from proreus.model.errors import InputError
from proreus.model.pod import Pod
from proreus.model.workload import DisruptionBudget
from proreus.serving.cluster_api.changes import (
    AddNode,
    AddPod,
    BindPod,
    Change,
    RemoveBudget,
    RemoveNode,
    RemovePod,
    SetBudget,
    UpdateNode,
    to_budget,
)
from proreus.serving.cluster_api.cost import Kept
from proreus.serving.cluster_api.request import DecideAnswer
from proreus.serving.cluster_api.schema import MOST_NODES, MOST_PODS, device_mask, to_node, to_pod
from proreus.serving.messages import Refusal, Refused, invalid
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.state.described_cluster import NodeNow, Running
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.open.values import ClusterSnapshot, Unlisted

MOST_SESSIONS = 16
"""At once; the one that was asked longest ago makes room for a new one."""
MOST_BYTES, MOST_BYTES_IN_ALL = 3 << 27, 1 << 29
"""Of one session and of all: terms, ports and resources of one's own make the tables of a cluster wide."""
_BYTES_EACH = 2_000
"""Of a node or a pod, beside the tables."""
_CHECKED = 64
"""After so many changes the size is looked at."""


@dataclass(eq=False)
class Session:
    """One cluster that is kept. Whoever holds `lock` may read and change it."""

    name: str
    cluster: OpenCluster
    policy: PodPolicy
    generation: int = 1
    lost: bool = False
    bytes: int = 0
    """As of the last look."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def expect(self, generation: int) -> None:
        """Refuse whoever knows another generation."""
        if self.lost:
            raise _lost(self.name)
        if generation != self.generation:
            raise Refused(
                Refusal.CONFLICT,
                f"the session is at {self.generation}; send the whole cluster again",
                "generation",
            )

    def apply(self, changes: Sequence[Change]) -> None:
        """Take note of what has happened, in order; a refusal names the change."""
        acts = [_act(self.cluster, change, f"changes[{k}]") for k, change in enumerate(changes)]
        for index, act in enumerate(acts):
            try:
                act()
                if index % _CHECKED == 0:
                    self.check_size()
            except InputError as error:
                self.lost = True
                raise invalid(f"changes[{index}]", f"{error}; the session is closed") from error
        if changes:
            self.generation += 1

    def carry_out(self, decided: DecideAnswer, pod: Pod) -> None:
        """Take a decision as done: its victims are gone, the pod runs where it was put."""
        if decided.node is None:
            return
        for victim in decided.victims:
            self.cluster.remove_pod(victim)
        devices = device_mask(decided.devices)
        if pod.name in self.cluster.pod_names():
            self.cluster.bind_pod(pod.name, decided.node, devices)
        else:
            self.cluster.add_pod(pod, decided.node, devices)
        self.generation += 1

    def kept(self) -> Kept:
        """How much there is."""
        cluster = self.cluster
        return Kept(len(cluster.node_names()), len(cluster.pod_names()), cluster.resource_names())

    def check_size(self) -> None:
        """An InputError where the cluster has become too large."""
        kept = self.kept()
        if kept.nodes > MOST_NODES or kept.pods > MOST_PODS:
            raise InputError(f"more than {MOST_NODES} nodes or {MOST_PODS} pods")
        self.bytes = self.cluster.bytes() + _BYTES_EACH * (kept.nodes + kept.pods)
        if self.bytes > MOST_BYTES:
            raise InputError(f"the cluster takes more than {MOST_BYTES >> 20} MiB")


class Sessions:
    """The clusters that are kept, the one asked longest ago first."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Session] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def open(
        self, nodes: Sequence[NodeNow], budgets: Sequence[DisruptionBudget], policy: PodPolicy
    ) -> Session:
        """Keep a cluster from now on."""
        cluster = OpenCluster()
        session = Session(secrets.token_hex(16), cluster, policy)
        add_nodes(cluster, nodes, session.check_size)
        for budget in budgets:
            cluster.add_budget(budget)
        session.check_size()
        with self._lock:
            self._kept[session.name] = session
            self._make_room()
        return session

    def named(self, name: str) -> Session:
        """The session of that name."""
        with self._lock:
            session = self._kept.get(name)
            if session is None or session.lost:
                self._kept.pop(name, None)
                raise _lost(name)
            self._kept.move_to_end(name)
            self._make_room()  # it may have grown since
            return session

    def close(self, session: Session) -> None:
        """Keep it no longer."""
        session.lost = True
        with self._lock:
            self._kept.pop(session.name, None)

    def _make_room(self) -> None:
        """The newest always stays."""
        while len(self._kept) > MOST_SESSIONS or self._too_large():
            _, oldest = self._kept.popitem(last=False)
            oldest.lost = True

    def _too_large(self) -> bool:
        return (
            len(self._kept) > 1 and sum(session.bytes for session in self._kept.values()) > MOST_BYTES_IN_ALL
        )


def add_nodes(
    cluster: OpenCluster, nodes: Sequence[NodeNow], check: Callable[[], None] = lambda: None
) -> None:
    """Nodes and what is on them; all nodes first, since each makes room for what follows.

    check: called now and then, since what becomes too large is to be noticed before it is.
    """
    for index, now in enumerate(nodes):
        cluster.add_node(now.node)
        if index % _CHECKED == 0:
            check()
    for now in nodes:
        cluster.set_unlisted(now.node.name, Unlisted(now.used, now.gpu_used))
    for now in nodes:
        for running in now.running:
            cluster.add_pod(running.pod, now.node.name, running.devices, running.since)


def nodes_now(snapshot: ClusterSnapshot) -> list[NodeNow]:
    """What is there, described as a client would."""
    running: dict[str, list[Running]] = {}
    for placed in snapshot.running:
        running.setdefault(placed.node, []).append(Running(placed.pod, placed.devices, placed.since))
    return [
        NodeNow(node, tuple(running.get(node.name, ())), unlisted.used, unlisted.gpu_used)
        for node, unlisted in zip(snapshot.nodes, snapshot.unlisted, strict=True)
    ]


def _update_node(cluster: OpenCluster, now: NodeNow) -> None:
    cluster.update_node(now.node)
    cluster.set_unlisted(now.node.name, Unlisted(now.used, now.gpu_used))


def _remove_node(cluster: OpenCluster, name: str) -> None:
    for pod in cluster.pods_on(name):
        cluster.remove_pod(pod)
    cluster.remove_node(name)


def _set_budget(cluster: OpenCluster, budget: DisruptionBudget) -> None:
    if (budget.namespace, budget.name) in cluster.budget_names():
        cluster.remove_budget(budget.name, budget.namespace)
    cluster.add_budget(budget)


def _act(cluster: OpenCluster, change: Change, path: str) -> Callable[[], object]:
    """What is to be done; what cannot be meant is refused before anything is."""
    match change:
        case AddNode(node=wire):
            return partial(add_nodes, cluster, [to_node(wire, f"{path}.node")])
        case UpdateNode(node=wire):
            if wire.pods:
                raise invalid(f"{path}.node.pods", "the pods of a node stay; list none")
            return partial(_update_node, cluster, to_node(wire, f"{path}.node"))
        case RemoveNode(name=name):
            return partial(_remove_node, cluster, name)
        case AddPod(pod=wire, node=node):
            pod = to_pod(wire, f"{path}.pod")
            return partial(cluster.add_pod, pod, node, device_mask(wire.devices), wire.since)
        case BindPod(name=name, node=node, devices=devices, since=since):
            return partial(cluster.bind_pod, name, node, device_mask(devices), since)
        case RemovePod(name=name):
            return partial(cluster.remove_pod, name)
        case SetBudget(budget=wire):
            return partial(_set_budget, cluster, to_budget(wire, f"{path}.budget"))
        case RemoveBudget(name=name, namespace=namespace):
            return partial(cluster.remove_budget, name, namespace)
        case _:
            assert_never(change)


def _lost(name: str) -> Refused:
    return Refused(Refusal.NOT_FOUND, f"{name!r} is not kept; send the whole cluster again", "session")
