"""Decisions made real: a store, an API in the language of Kubernetes, agents, and runtimes that run pods.

The class names of document 002 can be imported from here: `from proreus.engine import ContainerManager`. Each
is loaded when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PLACES = {
    "Container": "client.containers",
    "ContainerManager": "client.containers",
    "ContainerRuntime": "client.containers",
    "ImageHandler": "client.containers",
    "Pod": "client.cluster_objects",
    "PodController": "client.cluster_objects",
    "Node": "client.cluster_objects",
    "NodeController": "client.cluster_objects",
    "K8sClient": "client.k8s_client",
    "ExceptionHandler": "client.exceptions",
    "RandomScheduler": "client.schedulers",
    "KubeScheduler": "client.schedulers",
    "KubeSchedulerPlus": "client.schedulers",
    "DDQNScheduler": "client.schedulers",
    "WorkloadController": "controllers.workloads.controller:TaskHost",
    "ResourceAgent": "kubelet.agent",
    "SchedulingAgent": "scheduler.agent",
    "TaskAgent": "controllers.workloads.agent",
    "ApiServer": "api.server.server",
    "EtcdClient": "store.etcd.connection:EtcdConnection",
    "EtcdManager": "store.etcd.store:EtcdStore",
    "EtcdConfig": "store.etcd.address:EtcdAddress",
}
__all__ = list(_PLACES)


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"{__name__}.{module}"), attribute or name)


def __dir__() -> list[str]:
    return sorted((*globals(), *_PLACES))
