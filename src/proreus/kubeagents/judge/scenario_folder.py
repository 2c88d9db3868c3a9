"""What was seen of a cluster as a folder that `simulate`, `compare`, `train` and `tune` read.

`nodes.json` and `pods.json` are manifests: pods with the moment of their arrival and how long they ran, and
the objects that have a say in where they may go. `import.about` says what was made of what. Pods of
DaemonSets and static pods are on their nodes whatever a scheduler does: they become a part of them, which
have so much less room. A pod that had not ended ends with the time that is looked at.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from proreus.engine.scheduler.pod_templates import TemplateReader
from proreus.kube.owners import ARRIVAL, DURATION
from proreus.kube.pods import GPU_COUNT, GPU_MILLI, GPU_MODELS
from proreus.kubeagents.judge.pod_lives import PodLife, SeenCluster
from proreus.kubeagents.judge.prices import hourly
from proreus.model.errors import InputError, ProreusError
from proreus.model.files import check_folder, make_folder, write_together
from proreus.model.resources import CPU, EPHEMERAL, MEMORY, PODS
from proreus.worlds.pods.datasets.engine_trace import moment

Object = dict[str, Any]
NODES_FILE, PODS_FILE, ABOUT_FILE = "nodes.json", "pods.json", "import.about"
_AROUND: Mapping[str, tuple[str, ...]] = {
    "Namespace": (),
    "PriorityClass": ("value", "globalDefault", "preemptionPolicy"),
    "PodDisruptionBudget": ("spec",),
    "PersistentVolumeClaim": (),
    "Service": (),
}
"""What is kept of each kind that has a say, beside its name and labels."""
_OWNERS = ("ReplicaSet", "ReplicationController", "StatefulSet")
_SPEC_PARTS = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "resources",
    "tolerations",
    "topologySpreadConstraints",
)
_CONTAINER_PARTS = ("image", "name", "ports", "resources", "restartPolicy")
_WISHES = (GPU_MILLI, GPU_COUNT, GPU_MODELS)
_encode = msgspec.json.Encoder().encode
_LOWEST_DURATION = 0.001


@dataclass(frozen=True)
class About:
    """What was imported, and what could not be."""

    name: str
    begin: float
    """Seconds since 1970; time in the folder is counted from here."""
    end: float
    nodes: int
    pods: int
    stay: int
    """Pods that had not ended: they run to the end of the time that is looked at."""
    there: int
    """Pods that ran already when it began: they are where they were."""
    daemons: int
    """Pods of DaemonSets and static pods, which became a part of their nodes."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Pods that are not taken, by the reason."""
    recorded_cost: float = 0.0
    """Dollars of the nodes that held pods, where the pods really were."""

    @property
    def told(self) -> str:
        """In one line."""
        parts = [
            f"{self.pods:,} pods on {self.nodes:,} nodes, {moment(self.begin)} to {moment(self.end)}",
            f"{self.there:,} ran before and stay where they were",
            f"{self.stay:,} had not ended and run to the end",
            f"{self.daemons:,} of DaemonSets or static count as a part of their nodes",
        ]
        parts += [f"{count:,} left out: {why}" for why, count in sorted(self.left_out.items())]
        return "; ".join(parts)


@dataclass(frozen=True)
class Span:
    """Which time is looked at."""

    since: float | None = None
    """None: from the first pod that was seen on."""
    until: float | None = None
    """None: up to the last moment that is known of."""
    fresh: bool = False
    """Pods that ran before are placed anew, as if all had come when it began."""


@dataclass(frozen=True)
class Imported:
    """What goes into a folder."""

    nodes: list[Object]
    pods: list[Object]
    around: list[Object]
    about: About


def imported(seen: SeenCluster, span: Span, name: str = "cluster") -> Imported:
    """The cluster between two moments; an InputError where that is nothing."""
    nodes = seen.of_kind("Node")
    if not nodes:
        raise InputError("there is no Node among the objects")
    end = seen.last if span.until is None else min(span.until, seen.last)
    lives = [life for life in seen.pods.values() if life.created < end]
    first = min((life.created for life in lives), default=end)
    begin = first if span.since is None else max(span.since, first)
    lives = sorted(
        (life for life in lives if life.ended is None or life.ended > begin),
        key=lambda life: (life.created, life.uid),
    )
    if not lives or begin >= end:
        raise InputError(f"no pod was seen between {moment(begin)} and {moment(max(begin, end))}")
    reader, left_out = _reader(seen), Counter[str]()
    kept = _sorted_out(lives, reader, left_out)
    on_nodes = [life for life in lives if _is_daemon(life.object) and life.node and life.ended is None]
    smaller = _less(nodes, on_nodes, reader)
    known = {node["metadata"]["name"] for node in smaller}
    used = Counter[str]()
    pods, there, stay, held = [], 0, 0, []
    for life in kept:
        began = max(life.created, begin)
        until = end if life.ended is None else min(life.ended, end)
        was_there = life.bound is not None and life.bound < begin and life.node in known
        pinned = was_there and not span.fresh
        there, stay = there + was_there, stay + (life.ended is None or life.ended > end)
        ran = max(began, life.bound or began)
        runs = max(until - (begin if was_there else ran), _LOWEST_DURATION)
        pods.append(_pod(life, used, (began - begin, runs), life.node if pinned else ""))
        if life.node in known and life.bound is not None:
            held.append((life.node, max(life.bound, begin), until))
    about = About(
        name,
        begin,
        end,
        len(smaller),
        len(pods),
        stay,
        there,
        len(on_nodes),
        dict(left_out),
        _paid(smaller, held),
    )
    return Imported(smaller, pods, [*_around(seen)], about)


def write_folder(found: Imported, folder: Path) -> None:
    """All files or none."""
    check_folder(folder)
    make_folder(folder)
    write_together(
        {
            folder / NODES_FILE: _list(found.nodes),
            folder / PODS_FILE: _list([*found.around, *found.pods]),
            folder / ABOUT_FILE: msgspec.json.format(_encode(asdict(found.about)), indent=2) + b"\n",
        }
    )


def read_about(folder: Path) -> About:
    """What `write_folder` noted; an InputError where the folder is none of ours."""
    path = folder / ABOUT_FILE
    try:
        return msgspec.convert(msgspec.json.decode(path.read_bytes()), About)
    except OSError as error:
        raise InputError(
            f"cannot be read: {error.strerror}; proreus kube import makes such a folder", file=path
        ) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InputError(f"is no note of an import: {error}", file=path) from error


def _reader(seen: SeenCluster) -> TemplateReader:
    reader = TemplateReader()
    for obj in seen.of_kind("Namespace"):
        reader.set_namespace(obj["metadata"]["name"], obj)
    return reader


def _sorted_out(lives: Iterable[PodLife], reader: TemplateReader, left_out: Counter[str]) -> list[PodLife]:
    """The pods that a scheduler places, and that can be read."""
    kept = []
    for life in lives:
        if _is_daemon(life.object):
            if not (life.node and life.ended is None):
                left_out["pods of DaemonSets that are gone"] += 1
            continue
        if life.bound is None and life.ended is not None:
            left_out["deleted before they had a node"] += 1
            continue
        if life.object["spec"].get("resourceClaims"):
            left_out["with resource claims (DRA)"] += 1
            continue
        try:
            reader.pod(_with_namespace(life.object))
        except (ProreusError, ValueError, KeyError, TypeError, AttributeError):
            left_out["that cannot be understood"] += 1
            continue
        kept.append(life)
    return kept


def _is_daemon(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner.get("kind") in ("DaemonSet", "Node") for owner in owners)


def _with_namespace(pod: Object) -> Object:
    metadata = pod["metadata"]
    return {**pod, "metadata": {**metadata, "namespace": metadata.get("namespace") or "default"}}


def _less(nodes: Iterable[Object], daemons: Iterable[PodLife], reader: TemplateReader) -> list[Object]:
    """The nodes with so much less room as the pods take that are there whatever a scheduler does."""
    taken: dict[str, Counter[str]] = {}
    for life in daemons:
        try:
            requests = reader.pod(_with_namespace(life.object)).spec.requests
        except (ProreusError, ValueError, KeyError, TypeError, AttributeError):
            requests = None
        on_node = taken.setdefault(life.node, Counter())
        on_node[PODS] += 1
        if requests is not None:
            on_node[CPU] += requests.cpu
            on_node[MEMORY] += requests.memory
            on_node[EPHEMERAL] += requests.ephemeral
    smaller = []
    for node in nodes:
        size = reader.node(node)
        on_node = taken.get(size.name, Counter())
        status = node.get("status") or {}
        amounts = dict(status.get("allocatable") or status.get("capacity") or {})
        for name, now, unit in (
            (CPU, size.allocatable.cpu, "m"),
            (MEMORY, size.allocatable.memory, ""),
            (EPHEMERAL, size.allocatable.ephemeral, ""),
            (PODS, size.allocatable.pods, ""),
        ):
            if on_node[name] and name in amounts:
                amounts[name] = f"{max(0, now - on_node[name])}{unit}"
        metadata = {"name": size.name, "labels": node["metadata"].get("labels") or {}}
        spec = {
            key: node["spec"][key] for key in ("taints", "unschedulable") if key in (node.get("spec") or {})
        }
        smaller.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": metadata,
                "spec": spec,
                "status": {"allocatable": amounts},
            }
        )
    return smaller


def _pod(life: PodLife, used: Counter[str], time: tuple[float, float], node: str) -> Object:
    metadata, spec = life.object["metadata"], life.object["spec"]
    namespace, name = metadata.get("namespace") or "default", metadata["name"]
    used[f"{namespace}/{name}"] += 1
    again = used[f"{namespace}/{name}"]  # a StatefulSet gives the same name again
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key in _WISHES}
    annotations |= {ARRIVAL: f"{time[0]:.3f}", DURATION: f"{time[1]:.3f}"}
    kept: Object = {
        "name": name if again == 1 else f"{name}.{again}",
        "namespace": namespace,
        "annotations": annotations,
    }
    for part in ("labels", "ownerReferences"):
        if metadata.get(part):
            kept[part] = metadata[part]
    parts: Object = {key: spec[key] for key in _SPEC_PARTS if key in spec}
    parts["containers"] = [_container(one) for one in spec["containers"]]
    if spec.get("initContainers"):
        parts["initContainers"] = [_container(one) for one in spec["initContainers"]]
    claims = [volume for volume in spec.get("volumes") or () if "persistentVolumeClaim" in volume]
    if claims and life.node == "":
        parts["volumes"] = claims  # who had a node had its claims
    if node:
        parts["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": parts}


def _container(container: Object) -> Object:
    return {key: container[key] for key in _CONTAINER_PARTS if key in container}


def _around(seen: SeenCluster) -> Iterator[Object]:
    """What has a say beside nodes and pods; owners have all the pods that they want."""
    for kind, parts in _AROUND.items():
        for obj in seen.of_kind(kind):
            spec = obj.get("spec") or {}
            if kind == "PodDisruptionBudget" and ("minAvailable" in spec) == ("maxUnavailable" in spec):
                continue  # says nothing
            kept = _head(obj) | {part: obj[part] for part in parts if part in obj}
            yield kept | {"spec": {"selector": spec.get("selector")}} if kind == "Service" else kept
    for kind in _OWNERS:
        for obj in seen.of_kind(kind):
            spec = obj.get("spec") or {}
            labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
            if spec.get("selector") and labels:
                # Only whose pods they are counts: their templates may hold what nobody understands.
                containers = [{"name": "main", "image": ""}]
                template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
                owned = {"selector": spec["selector"], "replicas": 0, "template": template}
                yield _head(obj) | {"spec": owned}


def _head(obj: Object) -> Object:
    metadata = {
        key: obj["metadata"][key] for key in ("name", "namespace", "labels") if key in obj["metadata"]
    }
    stated = {"apiVersion": obj["apiVersion"]} if obj.get("apiVersion") else {}
    return {**stated, "kind": obj["kind"], "metadata": metadata}


def _list(objects: list[Object]) -> bytes:
    """A List with an object a line, which people and version control can read."""
    lines = b",\n".join(_encode(obj) for obj in objects)
    return b'{"apiVersion":"v1","kind":"List","items":[\n' + lines + b"\n]}\n"


def _paid(nodes: Iterable[Object], held: Iterable[tuple[str, float, float]]) -> float:
    """Dollars of the nodes for as long as they held a pod."""
    prices = hourly(nodes)
    stretches: dict[str, list[tuple[float, float]]] = {}
    for node, began, ended in held:
        stretches.setdefault(node, []).append((began, ended))
    paid = 0.0
    for node, spans in stretches.items():
        until = -1.0
        for began, ended in sorted(spans):
            paid += prices[node] * max(0.0, ended - max(began, until)) / 3600.0
            until = max(until, ended)
    return paid
