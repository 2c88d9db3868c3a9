"""What the SchedulingAgent believes the cluster to be: an `OpenCluster`, and what stands behind its rows.

Pods that were given a node and are not seen there yet (assumed ones) count as being there. Pods on nodes that
are not there (yet, or any more) are remembered and take no room.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace

from proreus.engine.scheduler.instructions import Object, PodRef
from proreus.engine.scheduler.pod_templates import Template
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import GpuRequest, Pod, PodAffinity
from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.open.values import MeasuredLoad

_HELD = "/held"
"""Behind the name of a pod that is shown where it is not: no name of a pod has two slashes."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Known:
    """A pod that takes part: it waits for this scheduler, or has a node."""

    ref: PodRef
    object: Object
    template: Template
    scheduler: str
    node: str = ""
    """"" while it waits."""
    assumed: bool = False
    """It was given its node by this scheduler, and the store has not shown it there yet."""
    devices: int = 0
    since: float = 0.0
    nominated: str = ""
    """The node on which others were evicted for it."""
    trouble: str = ""
    """What the scheduler cannot understand about it."""
    has_volumes: bool = False
    """It has claims, so that volumes that come and go concern it."""

    @property
    def key(self) -> str:
        """Its name in the cluster."""
        return self.ref.key

    @property
    def priority(self) -> int:
        """As it goes into the queue."""
        return self.template.spec.priority


class SchedulerCache:
    """Nodes, pods and budgets as they are believed to be."""

    def __init__(self) -> None:
        self.cluster = OpenCluster()
        self.pods: dict[str, Known] = {}
        self.nominated: dict[str, Known] = {}
        """Pods that wait for a node on which others were evicted for them."""
        self._nodes: dict[str, Node] = {}
        self._budgets: dict[tuple[str, str], DisruptionBudget] = {}
        self._loads: dict[str, MeasuredLoad] = {}
        self._homeless: dict[str, set[str]] = {}
        """Pods whose node is not there, by its name."""

    def has_nodes(self) -> bool:
        """Whether there is any node."""
        return bool(self._nodes)

    def set_node(self, node: Node) -> bool:
        """A node is there, or is now like this; whether that is news."""
        before = self._nodes.get(node.name)
        if before == node:
            return False
        if before is not None and before.gpu_count != node.gpu_count:
            # Its pods hold devices by their numbers: let them take theirs anew.
            self.remove_node(node.name)
            before = None
        self._nodes[node.name] = node
        if before is not None:
            self.cluster.update_node(node)
            return True
        self.cluster.add_node(node)
        self.cluster.set_load(node.name, self._loads.get(node.name))
        for key in sorted(self._homeless.pop(node.name, ())):
            self._enter(self.pods[key])
        return True

    def nodes(self) -> list[Node]:
        """All that are there."""
        return list(self._nodes.values())

    def node(self, name: str) -> Node:
        """One that is there."""
        return self._nodes[name]

    def set_load(self, node: str, load: MeasuredLoad | None) -> None:
        """What was measured on a node; None: that is not known, or not true any more."""
        if load is None:
            self._loads.pop(node, None)
        else:
            self._loads[node] = load
        if node in self._nodes:
            self.cluster.set_load(node, load)

    def remove_node(self, name: str) -> None:
        """A node is there no longer; its pods are remembered."""
        if name not in self._nodes:
            return
        del self._nodes[name]
        for key in self.cluster.pods_on(name):
            self.cluster.remove_pod(key)
            self._homeless.setdefault(name, set()).add(key)
        self.cluster.remove_node(name)

    def add(self, known: Known) -> None:
        """A pod takes part from now on."""
        self.pods[known.key] = known
        self._enter(known)

    def remove(self, key: str) -> None:
        """A pod takes part no longer."""
        known = self.pods.pop(key)
        self.nominated.pop(key, None)
        self._leave(known)

    def move(self, known: Known, node: str) -> None:
        """A pod is on that node from now on; "": it waits (again)."""
        if known.node == "" and node in self._nodes:
            # The usual way, a pod that is given its node: no row is given back and taken again.
            try:
                self.cluster.bind_pod(known.key, node, known.devices, known.since)
            except InputError:
                self._leave(known)
                known.node = node
                self._enter(known)
            known.node = node
        else:
            self._leave(known)
            known.node = node
            self._enter(known)
        if node:
            self.nominate(known, "")

    def reread(self, known: Known, template: Template) -> None:
        """A pod is not what it was."""
        self._leave(known)
        known.template = template
        self._enter(known)

    def nominate(self, known: Known, node: str) -> None:
        """A pod waits for that node, or ("") for none in particular."""
        known.nominated = node
        if node:
            self.nominated[known.key] = known
        else:
            self.nominated.pop(known.key, None)

    def is_here(self, known: Known) -> bool:
        """Whether a pod has a row in the cluster: it waits, or its node is there."""
        return not known.node or known.node in self._nodes

    def set_budget(self, budget: DisruptionBudget) -> None:
        """A budget is new, or is now like this."""
        key = (budget.namespace, budget.name)
        if self._budgets.get(key) == budget:
            return
        self.remove_budget(*key)
        self._budgets[key] = budget
        self.cluster.add_budget(budget)

    def remove_budget(self, namespace: str, name: str) -> None:
        """A budget is there no longer."""
        if self._budgets.pop((namespace, name), None) is not None:
            self.cluster.remove_budget(name, namespace)

    def covered(self, namespace: str, selector: Selector) -> int:
        """How many pods of a namespace a selector selects."""
        return sum(
            known.ref.namespace == namespace and selector.matches(dict(known.template.spec.labels))
            for known in self.pods.values()
        )

    def terminating_on(self, node: str, below: int) -> bool:
        """Whether a pod of a priority below that is on its way out from a node."""
        if node not in self._nodes:
            return False
        specs = (self.cluster.pod(key).spec for key in self.cluster.pods_on(node))
        return any(spec.terminating and spec.priority < below for spec in specs)

    def held_for(self, known: Known) -> Iterator[Known]:
        """Nominated pods whose nodes another pod of no higher priority must leave to them."""
        for other in self.nominated.values():
            if other is not known and other.priority >= known.priority and other.nominated in self._nodes:
                yield other

    def hold(self, known: Known, *, room_only: bool = False) -> None:
        """A nominated pod counts as being on its node, until it is let go; it waits all the same.

        room_only: for what the node has left alone, and not for affinity and spread.
        """
        spec = known.template.spec
        if room_only:
            spec = replace(spec, labels=(), affinity=PodAffinity(), anti_affinity=PodAffinity(), spread=())
        self._place(known, known.nominated, Pod(known.key + _HELD, spec))

    def let_go(self, known: Known) -> None:
        """It only waits again."""
        self.cluster.remove_pod(known.key + _HELD)

    def rebuild(self) -> None:
        """Other columns with the same content: somebody may still be at work on those there were."""
        self.cluster = OpenCluster()
        self._homeless.clear()
        for node in self._nodes.values():
            self.cluster.add_node(node)
            self.cluster.set_load(node.name, self._loads.get(node.name))
        for known in self.pods.values():
            self._enter(known)
        for budget in self._budgets.values():
            self.cluster.add_budget(budget)

    def _enter(self, known: Known) -> None:
        if not known.node:
            self.cluster.add_pod(Pod(known.key, known.template.spec))
        elif known.node in self._nodes:
            self._place(known, known.node, Pod(known.key, known.template.spec))
        else:
            self._homeless.setdefault(known.node, set()).add(known.key)

    def _place(self, known: Known, node: str, pod: Pod) -> None:
        try:
            self.cluster.add_pod(pod, node, known.devices, known.since)
        except InputError as error:
            # It is there all the same: what it takes beside GPUs counts, and those it asks for are taken.
            _log.info("pod %s: %s", known.key, error)
            without = replace(pod.spec, gpu=GpuRequest())
            self.cluster.add_pod(Pod(pod.name, without), node, 0, known.since)

    def _leave(self, known: Known) -> None:
        if known.node and known.node not in self._nodes:
            keys = self._homeless.get(known.node, set())
            keys.discard(known.key)
            if not keys:
                self._homeless.pop(known.node, None)
        else:
            self.cluster.remove_pod(known.key)
