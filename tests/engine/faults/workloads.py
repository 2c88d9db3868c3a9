"""Manifests that a churn makes: here of simulated pods, which start at once."""

from __future__ import annotations

import copy
from typing import Any, Protocol

Object = dict[str, Any]


class Work(Protocol):
    """What a churn asks for."""

    @property
    def operations(self) -> tuple[str, ...]:
        """What a worker draws from."""
        ...

    @property
    def most_replicas(self) -> int:
        """Of a Deployment."""
        ...

    def deployment(self, name: str, replicas: int) -> Object:
        """A service."""
        ...

    def job(self, name: str, completions: int) -> Object:
        """Work that ends by itself."""
        ...

    def pod(self, name: str) -> Object:
        """One that nobody owns."""
        ...

    def rolled(self, name: str, version: int) -> Object:
        """The only container of a Deployment's pods, other than before."""
        ...


class SimulatedWork:
    """See the module."""

    operations: tuple[str, ...] = ("scale", "scale", "roll", "delete", "job", "pod", "pod", "note")
    most_replicas: int = 6

    def deployment(self, name: str, replicas: int) -> Object:
        """A service of pods that start at once."""
        return deployment_of(name, replicas, _template({"app": name}, {"proreus.io/start-latency": "0.1"}))

    def job(self, name: str, completions: int) -> Object:
        """Work that ends by itself."""
        latencies = {"proreus.io/start-latency": "0.1", "proreus.io/duration": "0.4"}
        return job_of(name, completions, _template({"job": name}, latencies))

    def pod(self, name: str, cpu: str = "500m") -> Object:
        """One that nobody owns; it begins anew elsewhere where its node is lost."""
        template = _template({"bare": name}, {"proreus.io/reschedule": "true"})
        template["spec"]["containers"][0]["resources"]["requests"]["cpu"] = cpu
        return pod_of(name, template)

    def rolled(self, name: str, version: int) -> Object:
        """With another image."""
        return {**_CONTAINER, "image": f"nginx:{version}"}


def deployment_of(name: str, replicas: int, template: Object) -> Object:
    """A Deployment whose pods have the label `app`."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def job_of(name: str, completions: int, template: Object) -> Object:
    """A Job that does not give up."""
    template["spec"]["restartPolicy"] = "Never"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": completions, "parallelism": 2, "backoffLimit": 1000, "template": template},
    }


def pod_of(name: str, template: Object) -> Object:
    """The pod of a template, by itself."""
    metadata = {**template["metadata"], "name": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


_CONTAINER: Object = {
    "name": "main",
    "image": "nginx:1",
    "resources": {"requests": {"cpu": "500m", "memory": "256Mi"}},
}


def _template(labels: dict[str, str], annotations: dict[str, str]) -> Object:
    """Whoever gets it may change it."""
    annotations = {"proreus.io/stop-latency": "0.1", **annotations}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"containers": [copy.deepcopy(_CONTAINER)], "terminationGracePeriodSeconds": 5},
    }
