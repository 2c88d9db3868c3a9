"""What happened in the cluster, taken note of: the picture, the queue, and who is worth trying again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import assert_never

import numpy as np

from proreus.engine.objects.promotions import NAME as PROMOTIONS
from proreus.engine.objects.promotions import read_promotions
from proreus.engine.objects.scheduler_config import DEFAULT_SCHEDULER, NAME, NAMESPACE, Chosen, read_chosen
from proreus.engine.scheduler.cache import Known, SchedulerCache
from proreus.engine.scheduler.instructions import (
    Complain,
    Event,
    Instruction,
    InstructionFailed,
    Object,
    ObjectDeleted,
    ObjectUpdated,
    PodRef,
)
from proreus.engine.scheduler.messages import DEVICES, devices_mask
from proreus.engine.scheduler.node_load import Loads
from proreus.engine.scheduler.pod_templates import Template, TemplateReader, parts_that_matter
from proreus.engine.scheduler.profiles import Schedulers
from proreus.engine.scheduler.queue import Queue
from proreus.engine.scheduler.volumes import KINDS as VOLUME_KINDS
from proreus.engine.scheduler.volumes import Volumes, claims_of, has_volumes
from proreus.kube.default_spread import SPREADING
from proreus.model.errors import InputError
from proreus.model.pod import PodSpec
from proreus.model.resources import Resources
from proreus.model.selectors import Selector
from proreus.worlds.pods.state.queueing_hints import helped_by_coming, helped_by_leaving, helped_by_node

_COMPLETED = ("Succeeded", "Failed")
PATIENCE = 5.0
"""Seconds in which another scheduler may take up a pod whose schedulerName is none of ours."""
_MOST_COMPLAINTS = 16
"""About one ConfigMap."""
_KEPT = "this entry stays as it was until the engine starts anew"
"""What is in effect and written nowhere is known to this process alone."""
_LEFT_OUT = "this entry does not count"


class EventHandlers(ABC):
    """The half of the core that decides nothing."""

    def __init__(self, picture: SchedulerCache, queue: Queue, schedulers: Schedulers) -> None:
        self.picture, self.queue, self.schedulers = picture, queue, schedulers
        self.complaints: list[Instruction] = []
        self.budgets_by_status = self.follows_volumes = False
        self._reader = TemplateReader()
        self.volumes = Volumes()
        self._loads = Loads()
        self._nodes: dict[str, bytes] = {}
        """What of each node matters here, as it was read last."""
        self._others: dict[str, Object] = {}
        """Waiting pods that are another scheduler's, or at a gate."""
        self._unclaimed: dict[str, float] = {}
        """Those of them that nobody has said anything about, and when we will."""

    def handle(self, event: Event, now: float) -> None:
        """Take note of one event."""
        match event:
            case ObjectUpdated(kind="Pod", object=obj):
                self._pod_seen(obj, now)
            case ObjectDeleted(kind="Pod", object=obj):
                self._pod_gone(obj, now)
            case ObjectUpdated(kind="Node", object=obj):
                self._node_seen(obj, now)
            case ObjectDeleted(kind="Node", object=obj):
                self._nodes.pop(obj["metadata"]["name"], None)
                self.picture.remove_node(obj["metadata"]["name"])
                self._wake_all(now)
            case ObjectUpdated(kind="Lease", object=obj):
                load = self._loads.told(obj, now)
                if load is not None:
                    self.picture.set_load(obj["metadata"]["name"], load)
            case ObjectDeleted(kind="Lease", object=obj):
                self._loads.forget(obj["metadata"]["name"])
                self.picture.set_load(obj["metadata"]["name"], None)
            case ObjectUpdated(kind=kind, object=obj) | ObjectDeleted(kind=kind, object=obj) if (
                kind in VOLUME_KINDS
            ):
                self._volume_seen(kind, obj, now, gone=isinstance(event, ObjectDeleted))
            case ObjectUpdated(kind=kind, object=obj):
                self._other_seen(kind, obj, now)
            case ObjectDeleted(kind=kind, object=obj):
                self._other_gone(kind, obj, now)
            case InstructionFailed():
                self.not_done(event, now)
            case _:
                assert_never(event)

    def forget_silent(self, now: float) -> None:
        """Loads of nodes that are not heard of any more count no longer."""
        for node in self._loads.silent(now):
            self.picture.set_load(node, None)

    @abstractmethod
    def not_done(self, event: InstructionFailed, now: float) -> None:
        """What was assumed is not so."""

    # Pods.

    def _pod_seen(self, obj: Object, now: float) -> None:
        metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status") or {}
        ref = PodRef(metadata["namespace"], metadata["name"], metadata.get("uid", ""))
        known, node = self.picture.pods.get(ref.key), spec.get("nodeName") or ""
        if known is not None and known.ref != ref:  # another of the same name
            self._remove(known, now)
            known = None
        due = self._unclaimed.pop(ref.key, None)
        if _uid(self._others.pop(ref.key, obj)) != ref.uid:
            due = None
        leaves = not node and "deletionTimestamp" in metadata
        if leaves or status.get("phase") in _COMPLETED:
            if known is not None:
                self._remove(known, now)
            return
        scheduler = spec.get("schedulerName") or DEFAULT_SCHEDULER
        if not node and (spec.get("schedulingGates") or self.schedulers.named(scheduler) is None):
            self._others[ref.key] = obj
            if known is not None:
                self._remove(known, now)
            was_ours = known is not None  # what we said of it then is not so any more
            untold = was_ours or not _told_of(status)
            if self.schedulers.tells_unknown and not spec.get("schedulingGates") and untold:
                patience = 0.0 if was_ours else PATIENCE
                self._unclaimed[ref.key] = now + patience if due is None else due
            return
        template, trouble = self.template_of(obj)
        if known is None:
            known = Known(ref, obj, template, scheduler, node, trouble=trouble)
            known.has_volumes = self.follows_volumes and has_volumes(obj)
            self._first_seen(known, now)
        else:
            before = known.trouble, known.template.needs.refused
            known.object, known.scheduler, known.trouble = obj, scheduler, trouble
            self._seen_again(known, template, node, now)
            if not known.node and before != (trouble, template.needs.refused):
                self.queue.put(known.key, known.priority, now)

    def _first_seen(self, known: Known, now: float) -> None:
        metadata, status = known.object["metadata"], known.object.get("status") or {}
        if known.node:
            known.devices = devices_mask((metadata.get("annotations") or {}).get(DEVICES, ""))
            started = status.get("startTime") or metadata.get("creationTimestamp")
            known.since = _seconds(started) if started else now
            self.picture.add(known)
            self._came(known, now)
        else:
            self.picture.add(known)
            self.picture.nominate(known, status.get("nominatedNodeName") or "")
            self.queue.put(known.key, known.priority, now)

    def _seen_again(self, known: Known, template: Template, node: str, now: float) -> None:
        if template.spec is not known.template.spec and template.spec != known.template.spec:
            freed = self._rows(known)
            self.picture.reread(known, template)
            self._wake_freed(freed, now)  # labels that others go by, or it is on its way out
            if not known.node:
                self.queue.put(known.key, known.priority, now)
        else:
            known.template = template  # the same wishes; what its volumes are refused for may be another
        if not node:
            return  # it waits, or what was assumed has not been seen yet
        if node != known.node:
            self.queue.drop(known.key)
            freed = self._rows(known)
            known.since = now
            self.picture.move(known, node)
            self._wake_freed(freed, now)
            self._came(known, now)
        known.assumed = False

    def _pod_gone(self, obj: Object, now: float) -> None:
        metadata = obj["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}"
        self._others.pop(key, None)
        self._unclaimed.pop(key, None)
        known = self.picture.pods.get(key)
        if known is not None and known.ref.uid == metadata.get("uid", ""):
            self._remove(known, now)

    def unclaimed(self, now: float, most: int) -> Iterator[tuple[PodRef, str]]:
        """Pods that no scheduler has taken up in time, each once, and what to tell them."""
        overdue = [key for key, due in self._unclaimed.items() if due <= now][:most]
        for key in overdue:
            del self._unclaimed[key]
            obj = self._others[key]
            metadata = obj["metadata"]
            ref = PodRef(metadata["namespace"], metadata["name"], _uid(obj))
            yield ref, self.schedulers.unknown(obj["spec"]["schedulerName"])

    def unheard(self, ref: PodRef, now: float) -> None:
        """A pod that no scheduler has taken up could not be told so: it is told later."""
        obj = self._others.get(ref.key)
        if obj is not None and _uid(obj) == ref.uid:
            self._unclaimed.setdefault(ref.key, now + PATIENCE)

    def template_of(self, obj: Object) -> tuple[Template, str]:
        """What a pod asks for, and what is wrong with it."""
        try:
            if not self.follows_volumes or not has_volumes(obj):
                return self._reader.pod(obj), ""
            needs = self.volumes.needs(obj, self._claims_elsewhere(obj))
            return self._reader.pod_with_volumes(obj, needs), ""
        except (InputError, ValueError) as error:
            empty = PodSpec(Resources(), namespace=obj["metadata"]["namespace"])
            return Template(empty, None, by_namespaces=False), str(error)

    def _claims_elsewhere(self, obj: Object) -> Iterator[str]:
        """Claims of a pod's namespace that other pods on nodes use."""
        metadata = obj["metadata"]
        for known in self.picture.pods.values():
            same = known.ref.namespace == metadata["namespace"] and known.ref.uid != metadata.get("uid", "")
            if known.has_volumes and known.node and same:
                yield from claims_of(known.object)

    def _volume_seen(self, kind: str, obj: Object, now: float, *, gone: bool) -> None:
        limited = self.volumes.limited()
        self.volumes.see(kind, obj, gone=gone)
        if kind == "CSINode":
            for node in self.picture.nodes():
                self.picture.set_node(self.volumes.with_limits(node))
            self._volumes_changed(now, placed=self.volumes.limited() != limited)
            self._wake_all(now)
        else:
            self._volumes_changed(now, placed=kind == "PersistentVolume")

    def _volumes_changed(self, now: float, *, placed: bool = False) -> None:
        """Pods with claims are read again; placed: those that have nodes, too."""
        for known in [pod for pod in self.picture.pods.values() if pod.has_volumes]:
            if placed or not known.node:
                self._reread(known, now)

    def _reread(self, known: Known, now: float) -> None:
        assumed = known.assumed
        self._pod_seen(_on_node(known) if assumed else known.object, now)
        known.assumed = assumed  # it was only read again: the store has not shown it there

    # Nodes and the rest.

    def _node_seen(self, obj: Object, now: float) -> None:
        name, parts = obj["metadata"]["name"], parts_that_matter(obj)
        if self._nodes.get(name) == parts:
            return  # a heartbeat
        self._nodes[name] = parts
        try:
            node = self.volumes.with_limits(self._reader.node(obj))
        except (InputError, ValueError) as error:
            self.complaints.append(Complain(obj, f"the scheduler cannot use this node: {error}"))
            self.picture.remove_node(name)
            return
        if self.picture.set_node(node):
            self._wake_by_node(name, now)

    def _other_seen(self, kind: str, obj: Object, now: float) -> None:
        metadata = obj["metadata"]
        match kind:
            case "PodDisruptionBudget":
                self._budget_seen(obj)
            case "Namespace":
                if self._reader.set_namespace(metadata["name"], obj):
                    self._namespaces_changed(now)
            case "Service":
                if self._reader.set_service(metadata["namespace"], metadata["name"], obj):
                    self._services_changed(metadata["namespace"], now)
            case "ConfigMap":
                if (metadata["namespace"], metadata["name"]) == (NAMESPACE, NAME):
                    self._choose(obj, now)
                elif (metadata["namespace"], metadata["name"]) == (NAMESPACE, PROMOTIONS):
                    self.schedulers = replace(self.schedulers, promotions=read_promotions(obj))
            case _ if kind in SPREADING:
                owner = self._reader.set_owner(kind, obj)
                if owner is not None:
                    for known in [pod for pod in self.picture.pods.values() if pod.template.owner == owner]:
                        self._reread(known, now)

    def _other_gone(self, kind: str, obj: Object, now: float) -> None:
        metadata = obj["metadata"]
        match kind:
            case "PodDisruptionBudget":
                self.picture.remove_budget(metadata["namespace"], metadata["name"])
            case "Namespace":
                if self._reader.set_namespace(metadata["name"], None):
                    self._namespaces_changed(now)
            case "Service":
                if self._reader.set_service(metadata["namespace"], metadata["name"], None):
                    self._services_changed(metadata["namespace"], now)
            case "ConfigMap":
                if (metadata["namespace"], metadata["name"]) == (NAMESPACE, NAME):
                    self._choose(None, now)
                elif (metadata["namespace"], metadata["name"]) == (NAMESPACE, PROMOTIONS):
                    self.schedulers = replace(self.schedulers, promotions={})
            case _ if kind in SPREADING:
                self._reader.set_owner(kind, obj, gone=True)

    def _budget_seen(self, obj: Object) -> None:
        expected = (obj.get("status") or {}).get("expectedPods")

        def covered(namespace: str, selector: Selector) -> int:
            return self.picture.covered(namespace, selector) if expected is None else int(expected)

        try:
            budget = self._reader.budget(obj, covered)
            if self.budgets_by_status:
                allowed = (obj.get("status") or {}).get("disruptionsAllowed") or 0
                budget = replace(budget, allowed=max(0, int(allowed)))
            self.picture.set_budget(budget)
        except (InputError, ValueError) as error:
            self.complaints.append(Complain(obj, f"the scheduler cannot use this budget: {error}"))

    def _namespaces_changed(self, now: float) -> None:
        for known in [pod for pod in self.picture.pods.values() if pod.template.by_namespaces]:
            self._reread(known, now)

    def _services_changed(self, namespace: str, now: float) -> None:
        for known in [pod for pod in self.picture.pods.values() if pod.ref.namespace == namespace]:
            self._reread(known, now)

    def _choose(self, obj: Object | None, now: float) -> None:
        """Other policies from now on; pods of schedulers that came or went change hands."""
        read = read_chosen(obj)
        chosen, refused = dict(read.chosen), dict(read.refused)
        for name, choice in read.chosen.items():
            if why := self.refusal(choice):
                refused[name] = f"data.{name}: {why}"
                del chosen[name]
        for name in refused.keys() & self.schedulers.chosen.keys():
            chosen[name] = self.schedulers.chosen[name]
        news = [entry for entry in refused.items() if self.schedulers.refused.get(entry[0]) != entry[1]]
        for name, why in news[:_MOST_COMPLAINTS]:
            assert obj is not None, "nothing is refused where nothing was chosen"
            self.complaints.append(
                Complain(obj, f"{_KEPT if name in chosen else _LEFT_OUT}, others count: {why}")
            )
        self.schedulers = replace(self.schedulers, chosen=chosen, refused=refused)
        self.forget_unused()
        waiting = [known.object for known in self.picture.pods.values() if not known.node]
        for pod in [*waiting, *self._others.values()]:
            self._pod_seen(pod, now)
        for known in self.picture.pods.values():
            if not known.node and known.key not in self.queue:  # rejected by whoever decided before
                self.queue.put(known.key, known.priority, now)
        self._wake_all(now)

    @abstractmethod
    def refusal(self, chosen: Chosen) -> str:
        """Why that cannot decide; "": it can."""

    @abstractmethod
    def forget_unused(self) -> None:
        """Nobody but who was chosen need be kept ready."""

    # Who is worth trying again.

    def _remove(self, known: Known, now: float) -> None:
        self.queue.drop(known.key)
        freed = self._rows(known)
        self.picture.remove(known.key)
        self._wake_freed(freed, now)
        if known.has_volumes:
            self.volumes.release(known.ref.uid)
            self._volumes_changed(now)

    def _off_its_node(self, known: Known, now: float) -> None:
        """A pod that was believed to be on a node is not."""
        freed = self._rows(known)
        known.assumed, known.devices = False, 0
        self.picture.move(known, "")
        self._wake_freed(freed, now)
        if self.volumes.release(known.ref.uid):
            self._volumes_changed(now)

    def _rows(self, known: Known) -> tuple[int, int] | None:
        """The class of a pod and the row of its node, where it takes room on one."""
        if not known.node or not self.picture.is_here(known) or not self.queue.groups():
            return None
        return self.picture.cluster.rows_of(known.key)

    def _wake_freed(self, freed: tuple[int, int] | None, now: float) -> None:
        """A pod left a node."""
        if freed is None:
            return
        groups, helped = self._asking()
        if len(groups):
            helped_by_leaving(*self.picture.cluster.columns(), groups, freed, helped)
            self.queue.wake(groups[helped].tolist(), now)

    def _came(self, known: Known, now: float) -> None:
        """A pod is on a node that was not there before."""
        groups, helped = self._asking()
        if len(groups) and self.picture.is_here(known):
            placed, _ = self.picture.cluster.rows_of(known.key)
            helped_by_coming(self.picture.cluster.columns()[0], groups, placed, helped)
            self.queue.wake(groups[helped].tolist(), now)

    def _wake_by_node(self, name: str, now: float) -> None:
        groups, helped = self._asking()
        if len(groups):
            n = self.picture.cluster.node_at(name)
            helped_by_node(*self.picture.cluster.columns(), groups, n, helped)
            self.queue.wake(groups[helped].tolist(), now)

    def _wake_all(self, now: float) -> None:
        self.queue.wake(self.queue.groups(), now)

    def _asking(self) -> tuple[np.typing.NDArray[np.int64], np.typing.NDArray[np.bool_]]:
        groups = np.array(self.queue.groups(), dtype=np.int64)
        return groups, np.zeros(len(groups), dtype=np.bool_)


def _on_node(known: Known) -> Object:
    """The object of an assumed pod as it will be seen."""
    return {**known.object, "spec": {**known.object["spec"], "nodeName": known.node}}


def _uid(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def _told_of(status: Object) -> bool:
    """Whether a scheduler has said something about a pod that waits."""
    return any(condition.get("type") == "PodScheduled" for condition in status.get("conditions") or ())


def _seconds(timestamp: str) -> float:
    """A time of the API in seconds since 1970."""
    return datetime.fromisoformat(timestamp).timestamp()
