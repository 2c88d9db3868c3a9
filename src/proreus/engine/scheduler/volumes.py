"""Where a pod's volumes let it go, without I/O: volumes, claims, storage classes and limits of drivers.

By kube-scheduler's rules: a claim that is bound ties the pod to where its volume is; one that waits for its
first consumer goes where a volume that fits is free, or where one can be provisioned; any other claim without
a volume lets the pod wait. `VolumeNeeds` says that of a pod, `reserve` what is to be written once it has a
node. Storage capacities that drivers publish are not looked at: who cannot provision says so, and the pod is
decided about again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from proreus.data.json_tree import entry_of
from proreus.engine.scheduler.instructions import Object, VolumeAction
from proreus.kube.constraints import read_label_selector, read_node_affinity
from proreus.model.errors import InputError
from proreus.model.node import Node
from proreus.model.pod import NODE_NAME_FIELD, NodeAffinity, NodeTerm, PodSpec
from proreus.model.resources import Resources, parse_quantity
from proreus.model.selectors import Operator, Requirement, Selector

KINDS = ("PersistentVolume", "PersistentVolumeClaim", "StorageClass", "CSINode")
ATTACHABLE = "attachable-volumes-csi-"
"""Begins the name under which volumes of a driver count as a resource of nodes."""
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
_WAITS = "WaitForFirstConsumer"
_NO_PROVISIONER = "kubernetes.io/no-provisioner"
_DEFAULT_CLASS = "volume.beta.kubernetes.io/storage-class"
_ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
_REGIONS = ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region")
_NOT_HANDLED = ("gcePersistentDisk", "awsElasticBlockStore", "azureDisk", "cinder", "iscsi", "rbd")
"""Disks that two pods cannot share, written into the pod itself."""
_UNLIMITED = 1 << 40
_MOST_TERMS = 256
CONFLICT = "node(s) had volume node affinity conflict"
NONE_FREE = "node(s) didn't find available persistent volumes to bind"
_Key = tuple[str, str]
_Terms = tuple[NodeTerm, ...]


@dataclass(frozen=True, slots=True)
class VolumeNeeds:
    """What a pod's volumes ask of a node."""

    bound: tuple[_Terms, ...] = ()
    """Of each volume that stands: terms of which one must hold."""
    to_bind: tuple[_Terms, ...] = ()
    """The same of each claim that gets its volume with the node."""
    waits: bool = False
    """Whether there is such a claim; it may go anywhere."""
    attached: tuple[tuple[str, int], ...] = ()
    """Volumes by the resource that counts them."""
    refused: str = ""
    """Why no node can take the pod now."""


NO_NEEDS = VolumeNeeds()


class Volumes:
    """What is known of volumes; see the module."""

    def __init__(self) -> None:
        self._volumes: dict[str, Object] = {}
        self._claims: dict[_Key, Object] = {}
        self._classes: dict[str, Object] = {}
        self._limits: dict[str, dict[str, int]] = {}
        """By node and driver."""
        self._reserved: dict[str, _Key] = {}
        """Volumes that were given to claims of pods on their way to a node."""
        self._reserved_by: dict[str, list[str]] = {}
        """By the pod's uid."""

    def see(self, kind: str, obj: Object, *, gone: bool = False) -> None:
        """An object is now like this, or is there no longer."""
        metadata = obj["metadata"]
        name = metadata["name"]
        match kind:
            case "PersistentVolume":
                _keep(self._volumes, name, obj, gone=gone)
                if gone or (obj.get("spec") or {}).get("claimRef"):
                    self._reserved.pop(name, None)
            case "PersistentVolumeClaim":
                _keep(self._claims, (metadata.get("namespace", ""), name), obj, gone=gone)
            case "StorageClass":
                _keep(self._classes, name, obj, gone=gone)
            case "CSINode":
                _keep(self._limits, name, _limits(obj), gone=gone)

    def limited(self) -> frozenset[str]:
        """Drivers that some node limits."""
        return frozenset(driver for limits in self._limits.values() for driver in limits)

    def with_limits(self, node: Node) -> Node:
        """The node with room for so many volumes of each driver that is limited anywhere."""
        mine = self._limits.get(node.name, {})
        room = tuple((ATTACHABLE + driver, mine.get(driver, _UNLIMITED)) for driver in self.limited())
        return replace(node, allocatable=_with_extended(node.allocatable, room))

    def needs(self, pod: Object, others: Iterable[str] = ()) -> VolumeNeeds:
        """What the pod's volumes ask for; others: claims of its namespace that pods elsewhere use."""
        bound: list[_Terms] = []
        to_bind: list[_Terms] = []
        any_waits = False
        attached: dict[str, set[str]] = {}
        limited, namespace = self.limited(), pod["metadata"]["namespace"]
        placed = bool(pod["spec"].get("nodeName"))
        used = frozenset(others)
        for volume in pod["spec"].get("volumes") or ():
            name, refused = self._claimed(pod, volume)
            if refused and not placed:
                return VolumeNeeds(refused=refused)
            claim = self._claims.get((namespace, name)) if name else None
            if claim is None:
                continue
            try:
                terms, driver, waits = self._places(claim, used)
            except _Refused as why:
                if not placed:
                    return VolumeNeeds(refused=str(why))
                continue
            any_waits = any_waits or (waits and not placed)
            if driver in limited:
                attached.setdefault(ATTACHABLE + driver, set()).add(_volume_of(claim) or name)
            if terms is not None and not placed:
                (to_bind if waits else bound).append(terms)
        counts = tuple((resource, len(handles)) for resource, handles in sorted(attached.items()))
        return VolumeNeeds(tuple(bound), tuple(to_bind), any_waits, counts)

    def reserve(self, pod: Object, node: Node) -> tuple[VolumeAction, ...]:
        """What is to be written for the pod's claims that wait, now that it goes to that node."""
        actions: list[VolumeAction] = []
        namespace, uid = pod["metadata"]["namespace"], pod["metadata"].get("uid", "")
        self.release(uid)
        for volume in pod["spec"].get("volumes") or ():
            name, _ = self._claimed(pod, volume)
            claim = self._claims.get((namespace, name)) if name else None
            if claim is None or _volume_of(claim):
                continue
            key = (namespace, name)
            fitting = [
                free
                for free in self._free_for(claim)
                if (terms := _places_of(free)) is None or _any_holds(terms, node)
            ]
            if fitting:
                chosen = min(fitting, key=lambda free: (_size(free), free["metadata"]["name"]))
                free_name = chosen["metadata"]["name"]
                self._reserved[free_name] = key
                self._reserved_by.setdefault(uid, []).append(free_name)
                actions.append(VolumeAction(namespace, name, claim["metadata"].get("uid", ""), free_name))
            else:
                actions.append(VolumeAction(namespace, name, claim["metadata"].get("uid", "")))
        return tuple(actions)

    def release(self, uid: str) -> bool:
        """The pod does not go to its node; whether volumes are free again."""
        names = self._reserved_by.pop(uid, ())
        for name in names:
            self._reserved.pop(name, None)
        return bool(names)

    # One claim.

    def _claimed(self, pod: Object, volume: Mapping[str, Any]) -> tuple[str, str]:
        """The claim of a volume, if it is one, and why the pod cannot go anywhere because of it."""
        for source in _NOT_HANDLED:
            if source in volume:
                return "", f"volume {volume['name']}: {source} is not handled by this scheduler"
        metadata = pod["metadata"]
        if "ephemeral" in volume:
            name = f"{metadata['name']}-{volume['name']}"
            claim = self._claims.get((metadata["namespace"], name))
            if claim is None:
                waiting = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
                return name, f'{waiting} "{name}"'
            owners = claim["metadata"].get("ownerReferences") or ()
            if not any(owner.get("uid") == metadata.get("uid") for owner in owners):
                return name, f'PVC "{name}" was not created for pod "{metadata["name"]}" (pod is not owner)'
        elif "persistentVolumeClaim" in volume:
            name = volume["persistentVolumeClaim"]["claimName"]
            claim = self._claims.get((metadata["namespace"], name))
        else:
            return "", ""
        if claim is None:
            return name, f'persistentvolumeclaim "{name}" not found'
        if "deletionTimestamp" in claim["metadata"]:
            return name, f'persistentvolumeclaim "{name}" is being deleted'
        if (claim.get("status") or {}).get("phase") == "Lost":
            lost = claim["spec"].get("volumeName", "")
            return name, f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"'
        return name, ""

    def _places(self, claim: Object, used: frozenset[str]) -> tuple[_Terms | None, str, bool]:
        """(terms of which one must hold, None: anywhere; its driver; whether it waits for its node)."""
        spec, metadata = claim["spec"], claim["metadata"]
        if "ReadWriteOncePod" in (spec.get("accessModes") or ()) and metadata["name"] in used:
            raise _Refused(
                "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"
            )
        volume_name = spec.get("volumeName")
        if volume_name and BIND_COMPLETED in (metadata.get("annotations") or {}):
            volume = self._volumes.get(volume_name)
            if volume is None:
                raise _Refused(f'persistentvolume "{volume_name}" not found')
            return _places_of(volume), (volume["spec"].get("csi") or {}).get("driver", ""), False
        storage = self._classes.get(_class_of(claim))
        if volume_name or storage is None or storage.get("volumeBindingMode") != _WAITS:
            raise _Refused("pod has unbound immediate PersistentVolumeClaims")
        return self._to_be_bound(claim, storage), storage.get("provisioner", ""), True

    def _to_be_bound(self, claim: Object, storage: Object) -> _Terms | None:
        selected = (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE)
        if selected:
            named = Requirement(NODE_NAME_FIELD, Operator.IN, (selected,))
            return (NodeTerm(fields=Selector((named,))),)
        places: list[NodeTerm] = []
        for free in self._free_for(claim):
            terms = _places_of(free)
            if terms is None:
                return None
            places += terms
        if storage.get("provisioner") != _NO_PROVISIONER:
            topologies = storage.get("allowedTopologies") or ()
            if not topologies:
                return None
            places += map(_topology, topologies)
        if not places:
            raise _Refused(NONE_FREE)
        return tuple(dict.fromkeys(places))

    def _free_for(self, claim: Object) -> list[Object]:
        """Volumes that the claim could have."""
        key = (claim["metadata"].get("namespace", ""), claim["metadata"]["name"])
        return [
            volume
            for name, volume in self._volumes.items()
            if self._reserved.get(name, key) == key and _fits(claim, volume, key)
        ]


def with_volumes(spec: PodSpec, needs: VolumeNeeds) -> PodSpec:
    """The spec of a pod that goes only where its volumes let it; an InputError where that is too much."""
    if needs.attached:
        spec = replace(spec, requests=_with_extended(spec.requests, needs.attached))
    several = (*needs.bound, *needs.to_bind)
    if not several:
        return spec
    count = max(1, len(spec.node_affinity.required))
    for terms in several:
        count *= len(terms)
    if count > _MOST_TERMS:
        raise InputError(f"its volumes can be in {count} combinations of places, {_MOST_TERMS} are looked at")
    alternatives = [spec.node_affinity.required or (NodeTerm(),), *several]
    required = tuple(dict.fromkeys(_joined(terms) for terms in product(*alternatives)))
    return replace(spec, node_affinity=replace(spec.node_affinity, required=required))


def has_volumes(pod: Object) -> bool:
    """Whether a pod has volumes that matter here."""
    return any(
        any(kind in volume for kind in ("persistentVolumeClaim", "ephemeral", *_NOT_HANDLED))
        for volume in pod["spec"].get("volumes") or ()
    )


def claims_of(pod: Object) -> list[str]:
    """The names of a pod's claims."""
    return [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in pod["spec"].get("volumes") or ()
        if "persistentVolumeClaim" in volume
    ]


class _Refused(Exception):
    """No node can take the pod now."""


def _keep(kept: dict[Any, Any], key: Any, value: Any, *, gone: bool) -> None:
    if gone:
        kept.pop(key, None)
    else:
        kept[key] = value


def _limits(csi_node: Object) -> dict[str, int]:
    """How many volumes of each driver a node takes, where it says so."""
    limits = {}
    for driver in (csi_node.get("spec") or {}).get("drivers") or ():
        count = (driver.get("allocatable") or {}).get("count")
        if isinstance(count, int):
            limits[str(driver["name"])] = count
    return limits


def _with_extended(resources: Resources, amounts: Iterable[tuple[str, int]]) -> Resources:
    others = [item for item in resources.extended if not item[0].startswith(ATTACHABLE)]
    return replace(resources, extended=tuple(sorted((*others, *amounts))))


def _volume_of(claim: Object) -> str:
    return str(claim["spec"].get("volumeName") or "")


def _class_of(obj: Object) -> str:
    named = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_CLASS)
    return str(named if named is not None else obj["spec"].get("storageClassName") or "")


def _places_of(volume: Object) -> _Terms | None:
    """Where a volume can be used; None: anywhere."""
    required = ((volume["spec"].get("nodeAffinity") or {}).get("required") or {}).get("nodeSelectorTerms")
    terms: _Terms | None = None
    if required:
        wrapped = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": required}}
        path = Path("persistentvolume") / volume["metadata"]["name"]
        terms = read_node_affinity(entry_of(wrapped, path)).required
    labels = volume["metadata"].get("labels") or {}
    zoned = [
        Requirement(key, Operator.IN, tuple(labels[key].split("__")))
        for key in (*_ZONES, *_REGIONS)
        if key in labels
    ]
    if not zoned:
        return terms
    in_zone = NodeTerm(Selector(tuple(zoned)))
    return (in_zone,) if terms is None else tuple(_joined((term, in_zone)) for term in terms)


def _topology(term: Mapping[str, Any]) -> NodeTerm:
    """One of a storage class' allowedTopologies."""
    return NodeTerm(
        Selector(
            tuple(
                Requirement(part["key"], Operator.IN, tuple(part["values"]))
                for part in term.get("matchLabelExpressions") or ()
            )
        )
    )


def _joined(terms: Iterable[NodeTerm]) -> NodeTerm:
    """All of them hold."""
    many = tuple(terms)
    labels = dict.fromkeys(part for term in many for part in term.labels.requirements)
    fields = dict.fromkeys(part for term in many for part in term.fields.requirements)
    return NodeTerm(Selector(tuple(labels)), Selector(tuple(fields)))


def _any_holds(terms: _Terms, node: Node) -> bool:
    return NodeAffinity(terms).allows(node.name, dict(node.labels))


def _fits(claim: Object, volume: Object, key: _Key) -> bool:
    """Whether a claim could have a volume, by the rules of the controller that binds them."""
    spec, wanted = volume["spec"], claim["spec"]
    owner = spec.get("claimRef")
    if owner is not None:
        same = (owner.get("namespace"), owner.get("name")) == key
        if not same or owner.get("uid", "") not in ("", claim["metadata"].get("uid", "")):
            return False
    elif (volume.get("status") or {}).get("phase", "Available") != "Available":
        return False
    if "deletionTimestamp" in volume["metadata"] or _class_of(volume) != _class_of(claim):
        return False
    if spec.get("volumeMode", "Filesystem") != wanted.get("volumeMode", "Filesystem"):
        return False
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    asked = ((wanted.get("resources") or {}).get("requests") or {}).get("storage", "0")
    if _size(volume) < parse_quantity(str(asked)):
        return False
    selector = wanted.get("selector")
    if not selector:
        return True
    path = Path("persistentvolumeclaim") / key[0] / key[1]
    return read_label_selector(entry_of(selector, path)).matches(volume["metadata"].get("labels") or {})


def _size(volume: Object) -> int:
    return parse_quantity(str((volume["spec"].get("capacity") or {}).get("storage", "0")))


def volume_words(own: NodeAffinity, selector: Mapping[str, str], needs: VolumeNeeds, node: Node) -> str:
    """Of a node that affinity refused: what the pod's volumes have against it; "": the pod has it itself."""
    labels = dict(node.labels)
    if any(labels.get(key) != text for key, text in selector.items()) or not own.allows(node.name, labels):
        return ""
    if all(_any_holds(terms, node) for terms in needs.bound):
        return NONE_FREE
    return CONFLICT
