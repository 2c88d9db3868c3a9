"""Bodies of requests: objects of every kind that the API takes, and what is left of them when a few places in
them are changed."""

from __future__ import annotations

import copy
import random
from typing import Any

from proreus.engine.objects.kinds import (
    BUDGET,
    CONFIG_MAP,
    EVENT,
    JOB,
    LEASE,
    NAMESPACE,
    NODE,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    SECRET,
    SERVICE,
    Kind,
)
from tests.engine.api.known import JsonObject, Known
from tests.engine.api.shallow import Shallow

NAMES = tuple(f"f{number}" for number in range(12))


class Bodies:
    """See the module."""

    def __init__(self, draw: random.Random, known: Known, shallow: Shallow) -> None:
        self._random, self._known, self._shallow = draw, known, shallow

    def _chance(self, share: float) -> bool:
        return self._random.random() < share

    def valid(self, kind: Kind, name: str, namespace: str) -> JsonObject:
        """One that the API takes, if there is none of that name yet."""
        choose = self._random.choice
        labels = {"app": choose("ab"), "n": choose(("1", "5"))}
        metadata: JsonObject = {"name": name, "labels": labels}
        if kind.namespaced:
            metadata["namespace"] = namespace
        if self._chance(0.1):
            del metadata["name"]
            metadata["generateName"] = "f-"
        if self._chance(0.1):
            metadata["finalizers"] = ["fuzz.test/hold"]
        if self._chance(0.1) and (owners := self._known.of(choose((REPLICA_SET, JOB, CONFIG_MAP)))):
            owner = choose(owners)
            metadata["ownerReferences"] = [
                {
                    "apiVersion": owner["apiVersion"],
                    "kind": owner["kind"],
                    "name": owner["metadata"].get("name", "x"),
                    "uid": owner["metadata"].get("uid", "x"),
                    "controller": self._chance(0.5),
                    "blockOwnerDeletion": self._chance(0.5),
                }
            ]
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **self._rest(kind)}

    def _rest(self, kind: Kind) -> JsonObject:
        choose = self._random.choice
        selector = {"matchLabels": {"app": choose("ab")}}
        match kind:
            case kind if kind is POD:
                return {"spec": self._pod_spec()}
            case kind if kind is NODE:
                return {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1", "pods": "0"}}}
            case kind if kind is NAMESPACE:
                return {}
            case kind if kind is EVENT:
                about = {"kind": "Pod", "name": choose(NAMES), "namespace": "default"}
                return {
                    "involvedObject": about,
                    "reason": "Fuzz",
                    "message": "m",
                    "type": choose(("Normal", "x")),
                }
            case kind if kind is CONFIG_MAP:
                many = 3000 if self._chance(0.02) else self._random.randrange(4)
                return {"data": {f"k{number}": "v" for number in range(many)}}
            case kind if kind is SECRET:
                return {"data": {"k": "dg=="}, "stringData": {"s": "t"}, "type": choose(("Opaque", "x/y"))}
            case kind if kind is SERVICE:
                return {
                    "spec": {
                        "selector": {"app": "a"},
                        "ports": [{"name": "p", "port": 80, "targetPort": "p"}],
                    }
                }
            case kind if kind is LEASE:
                return {"spec": {"holderIdentity": "f", "leaseDurationSeconds": 15}}
            case kind if kind is BUDGET:
                return {
                    "spec": {
                        "selector": selector,
                        choose(("minAvailable", "maxUnavailable")): choose((1, "50%")),
                    }
                }
            case kind if kind is PRIORITY_CLASS:
                return {
                    "value": choose((-5, 0, 1000)),
                    "preemptionPolicy": choose(("Never", "PreemptLowerPriority")),
                }
            case kind if kind is JOB:
                template = {"spec": {**self._pod_spec(), "restartPolicy": choose(("Never", "OnFailure"))}}
                return {
                    "spec": {
                        "parallelism": choose((0, 1, 2)),
                        "completions": choose((1, 2)),
                        "template": template,
                    }
                }
            case _:
                template = {"metadata": {"labels": selector["matchLabels"]}, "spec": self._pod_spec()}
                return {"spec": {"replicas": choose((0, 1, 2)), "selector": selector, "template": template}}

    def _pod_spec(self) -> JsonObject:
        choose = self._random.choice
        container: JsonObject = {
            "name": "c",
            "image": "i",
            "env": [{"name": f"E{number}", "value": "v"} for number in range(self._random.randrange(3))],
            "resources": {"requests": {"cpu": choose(("10m", "1")), "memory": "16Mi"}},
            "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        }
        if self._chance(0.3):
            container["ports"] = [{"containerPort": 80, "hostPort": choose((8080, 8081))}]
        if self._chance(0.3):
            container["livenessProbe"] = {"exec": {"command": ["true"]}, "periodSeconds": 1}
        if self._chance(0.2):
            container["lifecycle"] = {"preStop": {"exec": {"command": ["true"]}}}
        spec: JsonObject = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
        if self._chance(0.2):
            spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
        if self._chance(0.2):
            term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}}
            spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if self._chance(0.1):
            spec["initContainers"] = [{"name": "first", "image": "i"}]
        if self._chance(0.1):
            spec["priorityClassName"] = choose(("f0", "f1", "nothing"))
        if self._chance(0.1):
            spec["schedulerName"] = choose(("fuzz", "nobody"))
        if self._chance(0.1):
            spec["terminationGracePeriodSeconds"] = choose((0, 1))
        return spec

    def mutated(self, document: Any) -> Any:
        """One or a few places in it are changed."""
        changed = copy.deepcopy(document)
        for _ in range(self._random.choice((1, 1, 1, 2, 4))):
            changed = self._mutate(changed, 0)
        return changed

    def _mutate(self, value: Any, depth: int) -> Any:
        if isinstance(value, dict) and value and (depth == 0 or self._chance(0.8)):
            key = self._random.choice(list(value))
            match self._random.randrange(12):
                case 0:
                    del value[key]
                case 1:
                    value[self._random.choice(("unknown", "name", "$patch", "\0", "x" * 300))] = (
                        self._shallow.value(0)
                    )
                case _:
                    value[key] = self._mutate(value[key], depth + 1)
            return value
        if isinstance(value, list) and value and self._chance(0.8):
            place = self._random.randrange(len(value))
            match self._random.randrange(8):
                case 0:
                    del value[place]
                case 1:
                    value.append(copy.deepcopy(value[place]))
                case 2:
                    value += [copy.deepcopy(value[place]) for _ in range(self._random.choice((2, 200)))]
                case _:
                    value[place] = self._mutate(value[place], depth + 1)
            return value
        if isinstance(value, str) and self._chance(0.4):
            return self._random.choice(
                (value + "x", value.upper(), value * 50, value[1:], f" {value}", f"{value}\n")
            )
        return self._shallow.value(0)

    def operation(self, obj: JsonObject) -> JsonObject:
        """One step of a JSON patch, mostly about something that is there."""
        choose = self._random.choice
        operation = choose(("add", "add", "replace", "remove", "test", "copy", "move"))
        path, value = self._pointer(obj)
        if operation == "add" and self._chance(0.3):
            path += choose(("/-", "/0", "/x", "/~1"))
        told = value if operation == "test" and self._chance(0.8) else self._shallow.value(0)
        return {"op": operation, "path": path, "from": self._pointer(obj)[0], "value": told}

    def _pointer(self, obj: JsonObject) -> tuple[str, Any]:
        path = ""
        value: Any = obj
        for _ in range(self._random.randrange(1, 7)):
            if isinstance(value, dict) and value:
                key = self._random.choice(list(value))
                path += "/" + str(key).replace("~", "~0").replace("/", "~1")
                value = value[key]
            elif isinstance(value, list) and value:
                place = self._random.randrange(len(value))
                path, value = f"{path}/{place}", value[place]
        return path, value
