"""A cluster as its API server tells of it, kept as columns that any policy can be asked over.

The objects come from reflectors, in whatever thread they run; questions come from others. Whoever holds
`lock` may ask. Pods of every scheduler count, those that wait included. Nothing is written to the cluster.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from proreus.data.json_tree import entry_of
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler.cache import Known
from proreus.engine.scheduler.core import SchedulingCore
from proreus.engine.scheduler.instructions import ObjectDeleted, ObjectUpdated
from proreus.engine.scheduler.pod_templates import TemplateReader
from proreus.engine.scheduler.profiles import RULE, Schedulers
from proreus.kube.constraints import read_label_selector
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.resources import (
    NAMESPACES,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    SERVICES,
    STATEFUL_SETS,
)
from proreus.model.errors import ProreusError
from proreus.model.pod import Pod
from proreus.model.selectors import Selector
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.cluster import OpenCluster

Object = dict[str, Any]
FOLLOWED = (
    NODES,
    NAMESPACES,
    SERVICES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
"""All that has a say in where a pod may go, and which pods are where."""
UNREADABLE = (ProreusError, ValueError, KeyError, TypeError, AttributeError)
"""What reading a pod that somebody sent may raise: it may be anything."""


@dataclass(frozen=True)
class _EveryScheduler(Schedulers):
    """Whatever a pod's schedulerName, it is seen."""

    def named(self, scheduler: str) -> Chosen:
        """Nobody here decides: one answer for all."""
        del scheduler
        return self.default


class ClusterView:
    """See the module."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.lock = threading.RLock()
        self._clock = clock
        self._core = SchedulingCore()
        self._core.schedulers = _EveryScheduler({}, Chosen(RULE))
        self._assumed: dict[str, float] = {}
        """Pods that were probably given a node, and until when that is believed."""
        self._strangers = TemplateReader()
        self._disruptions: dict[tuple[str, str], tuple[int, Selector]] = {}
        """Of budgets: how many more pods may go just now, and whose."""
        self._rows: dict[str, int] | None = None
        """Of nodes, until one comes or goes."""

    def hear(self, change: Change) -> None:
        """What a reflector tells."""
        self.told(str(change.object["kind"]), change.object, gone=change.type == "DELETED")

    def told(self, kind: str, obj: Object, *, gone: bool = False) -> None:
        """An object is now like this, or is there no longer."""
        event = ObjectDeleted(kind, obj) if gone else ObjectUpdated(kind, obj)
        with self.lock:
            if kind == "Node":
                self._rows = None
            if kind == "PodDisruptionBudget":
                self._budget_told(obj, gone=gone)
            self._core.handle(event, self._clock())
            self._core.complaints.clear()  # they are told by whoever schedules

    def _budget_told(self, obj: Object, *, gone: bool) -> None:
        key = (obj["metadata"]["namespace"], obj["metadata"]["name"])
        self._disruptions.pop(key, None)
        if not gone:
            selector = read_label_selector(entry_of(obj, Path("poddisruptionbudget")).find("spec.selector"))
            allowed = (obj.get("status") or {}).get("disruptionsAllowed")
            self._disruptions[key] = (int(allowed or 0), selector)

    # Questions, by whoever holds the lock.

    @property
    def known(self) -> dict[str, Known]:
        """Pods that take part, by namespace/name."""
        return self._core.picture.pods

    @property
    def cluster(self) -> OpenCluster:
        """The columns; others where a policy got stuck on those there were."""
        return self._core.picture.cluster

    def rows(self) -> dict[str, int]:
        """The row of each node."""
        if self._rows is None:
            self._rows = {name: self.cluster.node_at(name) for name in self.cluster.node_names()}
        return self._rows

    def observe(self, pod: Object) -> PodObservation:
        """The moment of a decision about a pod, as it waits; an InputError says what is not understood.

        One that the cluster does not know (yet) is only asked about.
        """
        now = self._clock()
        self._end_assumptions(now)
        metadata = pod["metadata"]
        namespace = metadata.get("namespace") or "default"
        key = f"{namespace}/{metadata['name']}"
        waiting = max(0, len(self._core.queue) - 1)
        known = self.known.get(key)
        if known is None or known.trouble or known.ref.uid != metadata.get("uid", ""):
            template = self._strangers.pod({**pod, "metadata": {**metadata, "namespace": namespace}})
            return self._core.picture.cluster.observe(Pod(key, template.spec), waiting, now)
        if known.assumed:
            self._take_back(known)
        if known.node:
            return self._core.picture.cluster.observe(Pod(key, known.template.spec), waiting, now)
        return self._core.picture.cluster.observe(key, waiting, now)

    def assume(self, pod: Object, node: str, seconds: float) -> None:
        """A pod probably goes to that node: it counts there until the cluster says, or for so long."""
        metadata = pod["metadata"]
        known = self.known.get(f"{metadata.get('namespace') or 'default'}/{metadata['name']}")
        if known is None or known.trouble or known.ref.uid != metadata.get("uid", ""):
            return
        if known.assumed and known.node != node:
            self._take_back(known)
        if (known.node and not known.assumed) or node not in self.cluster.node_names():
            return
        now = self._clock()
        if not known.node:
            known.assumed, known.since = True, now
            self._core.picture.move(known, node)
        self._assumed[known.key] = now + seconds

    def take_off(self, key: str) -> str:
        """From now on that pod only waits, in this view alone; the node that it was on, "": none."""
        known = self.known[key]
        was = known.node
        if was:
            known.assumed, known.devices = False, 0
            self._core.picture.move(known, "")
        return was

    def put_on(self, key: str, node: str) -> None:
        """From now on that pod is on a node, in this view alone."""
        self._core.picture.move(self.known[key], node)

    def cordon(self, node: str, *, closed: bool) -> None:
        """From now on a node takes no new pods, or takes them again, in this view alone."""
        self._core.picture.set_node(replace(self.cluster.node(node), unschedulable=closed))

    def protected(self) -> frozenset[str]:
        """Pods of budgets that allow no disruption just now, as the API server counts it."""
        shut = [
            (namespace, selector)
            for (namespace, _), (allowed, selector) in self._disruptions.items()
            if allowed < 1
        ]
        return frozenset(
            key
            for key, known in self.known.items()
            for namespace, selector in shut
            if known.ref.namespace == namespace and selector.matches(dict(known.template.spec.labels))
        )

    def start_over(self) -> None:
        """Leave the columns to a policy that may still be at work on them."""
        self._core.start_over(self._clock())
        self._rows = None

    def _end_assumptions(self, now: float) -> None:
        for key in [key for key, until in self._assumed.items() if until <= now]:
            known = self.known.get(key)
            del self._assumed[key]
            if known is not None and known.assumed:
                self._take_back(known)

    def _take_back(self, known: Known) -> None:
        self._assumed.pop(known.key, None)
        known.assumed, known.devices = False, 0
        self._core.picture.move(known, "")
