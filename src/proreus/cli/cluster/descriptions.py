"""Objects in words, as sections: what `proreus describe` prints, without asking anybody."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from proreus.cli.cluster.decision_section import decision_section
from proreus.cli.cluster.documents import as_yaml
from proreus.cli.cluster.sections import Section
from proreus.cli.cluster.tables import image_name, image_size
from proreus.engine.objects.decision_annotation import DECISION
from proreus.engine.objects.kinds import CONFIG_MAP, DEPLOYMENT, JOB, NODE, POD, REPLICA_SET, Kind
from proreus.engine.objects.promotions import NAME as PROMOTIONS
from proreus.engine.objects.promotions import read_promotions
from proreus.model.resources import parse_quantity

_LONGEST_ANNOTATION = 200
_HIDDEN_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", DECISION)
_COUNTED = ("cpu", "memory", "nvidia.com/gpu")
Object = dict[str, Any]


@dataclass(frozen=True)
class RelatedObjects:
    """What else is told of an object."""

    events: list[Object] = field(default_factory=list)
    pods: list[Object] = field(default_factory=list)
    replica_sets: list[Object] = field(default_factory=list)
    now: float = field(default_factory=time.time)


def describe(kind: Kind, obj: Object, around: RelatedObjects) -> list[Section]:
    """An object in sections."""
    sections = [_head(kind, obj, around.now)]
    match kind:
        case _ if kind == POD:
            sections += _pod(obj)
        case _ if kind == NODE:
            sections += _node(obj, around.pods)
        case _ if kind in (DEPLOYMENT, REPLICA_SET, JOB):
            sections += _workload(kind, obj, around.replica_sets)
        case _ if kind == CONFIG_MAP and obj["metadata"]["name"] == PROMOTIONS:
            sections += _candidates(obj)
        case _:
            sections += _anything(obj)
    sections.append(_events(around))
    return sections


def _candidates(obj: Object) -> list[Section]:
    """How far the candidate of each scheduler is."""
    section = Section("Candidates")
    for name, promotion in read_promotions(obj).items():
        lines = [f"{promotion.candidate} in place of {promotion.policy}: {promotion.stage}", promotion.told]
        if promotion.progress and promotion.progress not in promotion.told:
            lines.append(promotion.progress)
        section.add(name, *lines)
    return [section]


def _head(kind: Kind, obj: Object, now: float) -> Section:
    metadata = obj["metadata"]
    section = Section()
    section.add("Name", metadata["name"])
    section.add("Kind", f"{kind.kind} ({kind.api_version})")
    section.add("Namespace", metadata.get("namespace"))
    section.add("Labels", *pairs(metadata.get("labels")))
    section.add("Annotations", *pairs(_shown_annotations(metadata.get("annotations")), ": "))
    section.add("Created", _since(metadata.get("creationTimestamp"), now))
    section.add("Deleted", _since(metadata.get("deletionTimestamp"), now))
    section.add(
        "Owned by", *(f"{owner['kind']}/{owner['name']}" for owner in metadata.get("ownerReferences") or ())
    )
    section.add("Finalizers", *(metadata.get("finalizers") or ()))
    return section


def pairs(of: Mapping[str, Any] | None, between: str = "=") -> list[str]:
    """Keys and values, one a line."""
    return [f"{key}{between}{value}" for key, value in (of or {}).items()]


def _shown_annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    return {
        key: value if len(value) <= _LONGEST_ANNOTATION else f"{value[:_LONGEST_ANNOTATION]}..."
        for key, value in (annotations or {}).items()
        if key not in _HIDDEN_ANNOTATIONS
    }


def _pod(pod: Object) -> list[Section]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    state = Section()
    state.add("Status", status.get("phase", "Pending"))
    state.add("Reason", status.get("reason"))
    state.add("Message", status.get("message"))
    state.add("Node", spec.get("nodeName") or "none yet")
    state.add("Address", status.get("podIP"))
    state.add("Scheduler", spec.get("schedulerName"))
    state.add("Priority", spec.get("priority"), spec.get("priorityClassName"))
    state.add("Node selector", *pairs(spec.get("nodeSelector")))
    state.add("Tolerations", *map(_toleration, spec.get("tolerations") or ()))
    state.add("Nominated", status.get("nominatedNodeName"))
    decision = decision_section((pod["metadata"].get("annotations") or {}).get(DECISION, ""))
    states = {item["name"]: item for item in status.get("containerStatuses") or ()}
    containers = Section("Containers", head=("NAME", "IMAGE", "REQUESTS", "STATE", "RESTARTS"))
    for container in spec.get("containers") or ():
        now = states.get(container["name"], {})
        containers.rows.append(
            [
                container["name"],
                container.get("image", ""),
                ", ".join(pairs((container.get("resources") or {}).get("requests"))) or "none",
                _container_state(now.get("state") or {}),
                str(now.get("restartCount", 0)),
            ]
        )
    return [state, decision, containers, _conditions(status)]


def _container_state(state: Mapping[str, Any]) -> str:
    for name, details in state.items():
        details = details or {}
        why = details.get("reason", "")
        if name == "terminated":
            why = f"{why or 'ended'}, exit code {details.get('exitCode', 0)}"
        return f"{name} ({why})" if why else name
    return "waiting"


def _toleration(toleration: Mapping[str, Any]) -> str:
    description = toleration.get("key", "everything")
    if toleration.get("value"):
        description += f"={toleration['value']}"
    if toleration.get("effect"):
        description += f":{toleration['effect']}"
    seconds = toleration.get("tolerationSeconds")
    return description if seconds is None else f"{description} for {seconds} s"


def _node(node: Object, pods: list[Object]) -> list[Section]:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    state = Section()
    state.add("Schedulable", "no (cordoned)" if spec.get("unschedulable") else "yes")
    state.add("Taints", *map(_toleration, spec.get("taints") or ()))
    state.add("Addresses", *(f"{item['type']}: {item['address']}" for item in status.get("addresses") or ()))
    info = status.get("nodeInfo") or {}
    state.add("Runtime", info.get("containerRuntimeVersion"))
    living = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    room = Section("Room", head=("RESOURCE", "ALLOCATABLE", "REQUESTED", "SHARE"))
    for resource, amount in (status.get("allocatable") or {}).items():
        asked = len(living) * 1000 if resource == "pods" else _requested(living, resource)
        whole = _milli(amount)
        share = f"{asked / whole:.0%}" if whole else "-"
        room.rows.append([resource, str(amount), _amount(asked, resource), share])
    shown = Section(f"Pods ({len(living)})", head=("NAMESPACE", "NAME", "PHASE", "CPU", "MEMORY"))
    for pod in sorted(living, key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"])):
        shown.rows.append(
            [
                pod["metadata"]["namespace"],
                pod["metadata"]["name"],
                (pod.get("status") or {}).get("phase", ""),
                *(_amount(_requested([pod], resource), resource) for resource in _COUNTED[:2]),
            ]
        )
    images = Section("Images", head=("NAME", "SIZE"))
    for image in status.get("images") or ():
        images.rows.append([image_name(image.get("names") or ()), image_size(image.get("sizeBytes", 0))])
    return [state, _conditions(status), room, shown, images]


def _requested(pods: Iterable[Object], resource: str) -> int:
    """What pods ask for, in thousandths: their containers together, or the largest of those that prepare."""
    total = 0
    for pod in pods:
        spec = pod.get("spec") or {}

        def asked(container: Object) -> int:
            return _milli(((container.get("resources") or {}).get("requests") or {}).get(resource, 0))

        running = sum(map(asked, spec.get("containers") or ()))
        total += max(running, *map(asked, spec.get("initContainers") or ()), 0)
        total += _milli((spec.get("overhead") or {}).get(resource, 0))
    return total


def _milli(amount: object) -> int:
    try:
        return parse_quantity(amount, scale=1000)
    except ValueError:
        return 0


def _amount(milli: int, resource: str) -> str:
    if resource in ("memory", "ephemeral-storage"):
        return f"{milli / 1000 / 2**20:,.0f}Mi"
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def _workload(kind: Kind, obj: Object, replica_sets: list[Object]) -> list[Section]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    state = Section()
    selector = spec.get("selector") or {}
    state.add("Selector", ", ".join(pairs(selector.get("matchLabels"))) or None)
    if kind == JOB:
        state.add("Completions", spec.get("completions"))
        state.add("Parallelism", spec.get("parallelism"))
        by_state = {name: status.get(name, 0) for name in ("active", "succeeded", "failed")}
        state.add("Pods", ", ".join(f"{count} {name}" for name, count in by_state.items()))
    else:
        by_state = {
            "wanted": spec.get("replicas", 1),
            "there": status.get("replicas", 0),
            "up to date": status.get("updatedReplicas"),
            "ready": status.get("readyReplicas", 0),
            "available": status.get("availableReplicas", 0),
        }
        replicas = (f"{count} {name}" for name, count in by_state.items() if count is not None)
        state.add("Replicas", ", ".join(replicas))
        state.add("Strategy", (spec.get("strategy") or {}).get("type"))
    template = ((spec.get("template") or {}).get("spec")) or {}
    containers = Section("Containers", head=("NAME", "IMAGE", "REQUESTS"))
    for container in template.get("containers") or ():
        asked = ", ".join(pairs((container.get("resources") or {}).get("requests"))) or "none"
        containers.rows.append([container["name"], container.get("image", ""), asked])
    owned = Section("ReplicaSets", head=("NAME", "WANTED", "READY"))
    for item in replica_sets:
        counts = (
            (item.get("spec") or {}).get("replicas", 0),
            (item.get("status") or {}).get("readyReplicas", 0),
        )
        owned.rows.append([item["metadata"]["name"], *map(str, counts)])
    return [state, containers, owned, _conditions(status)]


def _anything(obj: Object) -> list[Section]:
    """Whatever else an object holds, as YAML."""
    section = Section()
    for key, value in obj.items():
        if key in ("apiVersion", "kind", "metadata"):
            continue
        if isinstance(value, dict | list):
            section.add(key, *as_yaml(value).rstrip("\n").split("\n"))
        else:
            section.add(key, value)
    return [section]


def _conditions(status: Mapping[str, Any]) -> Section:
    section = Section("Conditions", head=("TYPE", "STATUS", "REASON", "MESSAGE"))
    for condition in status.get("conditions") or ():
        cells = [str(condition.get(key, "")) for key in ("type", "status", "reason", "message")]
        section.rows.append([" ".join(text.split()) for text in cells])
    return section


def _events(around: RelatedObjects) -> Section:
    section = Section("Events", head=("AGE", "TYPE", "REASON", "MESSAGE"))
    for event in sorted(around.events, key=_event_time):
        count = event.get("count") or (event.get("series") or {}).get("count") or 1
        often = f" (x{count})" if count > 1 else ""
        age = _age(_event_time(event), around.now)
        message = " ".join(str(event.get("message", "")).split())
        section.rows.append([age + often, event.get("type", ""), event.get("reason", ""), message])
    return section


def _event_time(event: Object) -> str:
    return str(
        event.get("lastTimestamp")
        or (event.get("series") or {}).get("lastObservedTime")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp", "")
    )


def _since(stamp: str | None, now: float) -> str | None:
    return f"{stamp} ({_age(stamp, now)} ago)" if stamp else None


def _age(stamp: str, now: float) -> str:
    """How long ago, as kubectl says it."""
    try:
        then = datetime.fromisoformat(stamp).astimezone(UTC).timestamp()
    except ValueError:
        return "unknown"
    seconds = max(0, int(now - then))
    for size, unit, smaller in ((86_400, "d", "h"), (3_600, "h", "m"), (60, "m", "s")):
        if seconds >= 2 * size:
            rest = seconds % size // {"h": 3_600, "m": 60, "s": 1}[smaller]
            return (
                f"{seconds // size}{unit}{rest}{smaller}"
                if rest and seconds < 10 * size
                else f"{seconds // size}{unit}"
            )
    return f"{seconds}s"
