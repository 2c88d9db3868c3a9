"""A mixed workload for a real cluster, and the judge of where it ended: every rule counted anew.

The judge shares no code with the scheduler: it adds up requests, ports, skews and affinities from the objects
that the API server has.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tests.kube.control_plane import Object, node, pod

ZONES = ("a", "b", "c")
ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SCHEDULER = "proreus"


def nodes(count: int) -> list[Object]:
    """Nodes in three zones; every tenth is tainted, every seventh has fast disks."""
    made = []
    for n in range(count):
        labels = {ZONE: ZONES[n % 3]}
        if n % 7 == 0:
            labels["disk"] = "fast"
        more: dict[str, Any] = {"labels": labels}
        if n % 10 == 3:
            more["taints"] = [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}]
        made.append(node(f"node-{n:04}", **more))
    return made


def pods(count: int, seed: int = 0) -> list[Object]:
    """Plain ones, and of every sort of wish; about one in fifty is impossible."""
    lot = random.Random(seed)
    return [_pod(n, lot) for n in range(count)]


def _pod(n: int, lot: random.Random) -> Object:
    requests = {"cpu": lot.choice(["50m", "100m", "250m"]), "memory": lot.choice(["64Mi", "256Mi"])}
    app = f"app-{n % 17}"
    spec: dict[str, Any] = {"schedulerName": SCHEDULER}
    sort = n % 10
    selects = {"labelSelector": {"matchLabels": {"app": app}}}
    match sort:
        case 0:
            spec["nodeSelector"] = {"disk": "fast"}
        case 1:
            spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
            spec["affinity"] = {"nodeAffinity": _required(ZONE, [lot.choice(ZONES)])}
        case 2:
            spec["topologySpreadConstraints"] = [
                {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **selects}
            ]
            app = f"spread-{n % 3}"
            selects["labelSelector"]["matchLabels"]["app"] = app
        case 3 if n % 4 == 3:
            app = f"apart-{n % 50}"
            terms = [{"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": app}}}]
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        case 4:
            app = f"together-{n % 20}"
            terms = [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": app}}}]
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        case 5 if n % 30 == 5:
            requests["cpu"] = "64"  # no node is so large
        case 6 if n % 30 == 6:
            spec["nodeSelector"] = {"disk": "none-has-that"}
    made = pod(f"pod-{n:05}", requests, labels={"app": app}, **spec)
    if sort == 7:
        made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 9000 + n % 40}]
    return made


def _required(key: str, values: list[str]) -> Object:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}


def is_impossible(made: Object) -> bool:
    """Whether no node can ever take it."""
    selector = made["spec"].get("nodeSelector") or {}
    cpu = made["spec"]["containers"][0]["resources"]["requests"].get("cpu")
    return cpu == "64" or selector.get("disk") == "none-has-that"


# The judge.


def _cpu(text: str) -> int:
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000


def _memory(text: str) -> int:
    units = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    return int(text[:-2]) * units[text[-2:]] if text[-2:] in units else int(text)


def wrongs(all_nodes: Iterable[Object], all_pods: Iterable[Object]) -> list[str]:
    """All rules that do not hold for the pods that are bound."""
    by_name = {one["metadata"]["name"]: one for one in all_nodes}
    placed = [one for one in all_pods if one["spec"].get("nodeName")]
    found: list[str] = []
    on: defaultdict[str, list[Object]] = defaultdict(list)
    for one in placed:
        on[one["spec"]["nodeName"]].append(one)
    for name, there in on.items():
        found += _overfull(by_name[name], there)
    for one in placed:
        found += _wishes(one, by_name[one["spec"]["nodeName"]], placed, by_name)
    return found


def _overfull(where: Object, there: list[Object]) -> list[str]:
    found, room, name = [], where["status"]["allocatable"], where["metadata"]["name"]
    asked = [one["spec"]["containers"][0]["resources"].get("requests") or {} for one in there]
    if sum(_cpu(one.get("cpu", "0")) for one in asked) > _cpu(room["cpu"]):
        found.append(f"{name}: more CPU than it has")
    if sum(_memory(one.get("memory", "0")) for one in asked) > _memory(room["memory"]):
        found.append(f"{name}: more memory than it has")
    if len(there) > int(room["pods"]):
        found.append(f"{name}: too many pods")
    ports = Counter(
        port["hostPort"]
        for one in there
        for port in one["spec"]["containers"][0].get("ports") or ()
        if port.get("hostPort")
    )
    return found + [f"{name}: port {port} twice" for port, count in ports.items() if count > 1]


def _wishes(one: Object, where: Object, placed: list[Object], by_name: dict[str, Object]) -> list[str]:
    spec, name = one["spec"], one["metadata"]["name"]
    labels = where["metadata"]["labels"]
    found = []
    for key, text in (spec.get("nodeSelector") or {}).items():
        if labels.get(key) != text:
            found.append(f"{name}: its node has no {key}={text}")
    tolerated = {item.get("key") for item in spec.get("tolerations") or ()}
    for taint in where["spec"].get("taints") or ():
        if taint["effect"] != "PreferNoSchedule" and taint["key"] not in tolerated:
            found.append(f"{name}: does not tolerate {taint['key']}")
    affinity = spec.get("affinity") or {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    for term in ((affinity.get("nodeAffinity") or {}).get(required) or {}).get("nodeSelectorTerms") or ():
        for wish in term["matchExpressions"]:
            if labels.get(wish["key"]) not in wish["values"]:
                found.append(f"{name}: node affinity")

    def beside(term: Object) -> list[Object]:
        return [
            other
            for other in placed
            if other is not one
            and _selected(other, term["labelSelector"])
            and by_name[other["spec"]["nodeName"]]["metadata"]["labels"].get(term["topologyKey"])
            == labels.get(term["topologyKey"])
        ]

    for term in (affinity.get("podAntiAffinity") or {}).get(required) or ():
        if beside(term):
            found.append(f"{name}: beside one that it must be apart from")
    for term in (affinity.get("podAffinity") or {}).get(required) or ():
        others = [other for other in placed if other is not one and _selected(other, term["labelSelector"])]
        if others and not beside(term):
            found.append(f"{name}: not beside its own")
    return found


def skews(all_nodes: Iterable[Object], all_pods: Iterable[Object]) -> dict[str, int]:
    """By app that must be spread: how far its zones lie apart; only nodes without taints count."""
    zone_of = {one["metadata"]["name"]: one["metadata"]["labels"].get(ZONE) for one in all_nodes}
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for one in all_pods:
        if one["spec"].get("topologySpreadConstraints") and one["spec"].get("nodeName"):
            counts[one["metadata"]["labels"]["app"]][zone_of[one["spec"]["nodeName"]] or ""] += 1
    return {app: max(by.values()) - min(by.get(zone, 0) for zone in ZONES) for app, by in counts.items()}


def _selected(one: Object, selector: Object) -> bool:
    labels = one["metadata"].get("labels") or {}
    return all(labels.get(key) == text for key, text in selector["matchLabels"].items())


def untold(all_pods: Iterable[Object]) -> list[str]:
    """Pods that wait and were not told why."""
    return [
        one["metadata"]["name"]
        for one in all_pods
        if not one["spec"].get("nodeName")
        and not any(
            condition["type"] == "PodScheduled"
            and condition["status"] == "False"
            and condition["reason"] == "Unschedulable"
            and "nodes are available" in condition["message"]
            for condition in one["status"].get("conditions") or ()
        )
    ]
