"""The kinds of objects that the engine keeps: one row each, by which discovery, paths and keys are made."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

KEY_ROOT = "/registry/"


@dataclass(frozen=True, eq=False)
class Kind:
    """One kind of object, as discovery tells of it. There is one value of each, which is asked for all the
    time: by itself it is a key, and its names are put together once."""

    kind: str
    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short: tuple[str, ...] = ()
    status: bool = False
    """Whether `status` is a subresource: a plain write leaves it alone, one to it leaves the rest."""
    scale: bool = False
    categories: tuple[str, ...] = ()

    @cached_property
    def api_version(self) -> str:
        """As objects state it: "v1", "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @cached_property
    def resource(self) -> str:
        """The name in errors and roles: "pods", "deployments.apps"."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @cached_property
    def prefix(self) -> str:
        """All keys of this kind."""
        return f"{KEY_ROOT}{self.resource}/"

    def prefix_in(self, namespace: str) -> str:
        """All keys of this kind in a namespace; "" means in all of them."""
        return f"{self.prefix}{namespace}/" if namespace else self.prefix

    def key(self, namespace: str, name: str) -> str:
        """Where an object stands in the store."""
        return f"{self.prefix}{namespace}/{name}" if self.namespaced else f"{self.prefix}{name}"


_ALL = ("all",)
POD = Kind("Pod", "pods", short=("po",), status=True, categories=_ALL)
NODE = Kind("Node", "nodes", namespaced=False, short=("no",), status=True)
NAMESPACE = Kind("Namespace", "namespaces", namespaced=False, short=("ns",), status=True)
EVENT = Kind("Event", "events", short=("ev",))
CONFIG_MAP = Kind("ConfigMap", "configmaps", short=("cm",))
SECRET = Kind("Secret", "secrets")
SERVICE_ACCOUNT = Kind("ServiceAccount", "serviceaccounts", short=("sa",))
SERVICE = Kind("Service", "services", short=("svc",), status=True, categories=_ALL)
DEPLOYMENT = Kind(
    "Deployment", "deployments", "apps", short=("deploy",), status=True, scale=True, categories=_ALL
)
REPLICA_SET = Kind(
    "ReplicaSet", "replicasets", "apps", short=("rs",), status=True, scale=True, categories=_ALL
)
JOB = Kind("Job", "jobs", "batch", status=True, categories=_ALL)
LEASE = Kind("Lease", "leases", "coordination.k8s.io")
BUDGET = Kind("PodDisruptionBudget", "poddisruptionbudgets", "policy", short=("pdb",), status=True)
PRIORITY_CLASS = Kind(
    "PriorityClass", "priorityclasses", "scheduling.k8s.io", namespaced=False, short=("pc",)
)

KINDS = (
    POD,
    NODE,
    NAMESPACE,
    EVENT,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    SERVICE,
    DEPLOYMENT,
    REPLICA_SET,
    JOB,
    LEASE,
    BUDGET,
    PRIORITY_CLASS,
)
NODE_METRICS = Kind("NodeMetrics", "nodes", "metrics.k8s.io", "v1beta1", namespaced=False)
POD_METRICS = Kind("PodMetrics", "pods", "metrics.k8s.io", "v1beta1")
DEFINITION = Kind(
    "CustomResourceDefinition",
    "customresourcedefinitions",
    "apiextensions.k8s.io",
    namespaced=False,
    short=("crd", "crds"),
)
"""Of which there are none, and none can be made: kubectl asks for them where it does not know a kind."""
MEASURED = (NODE_METRICS, POD_METRICS)
"""Kinds that are read only: made of what was measured when somebody asks, and not kept."""
LEASE_NAMESPACE = "kube-node-lease"
"""Of the leases by which nodes show that they live."""
BY_RESOURCE = MappingProxyType(
    {(kind.group, kind.version, kind.plural): kind for kind in (*KINDS, *MEASURED, DEFINITION)}
)
BY_KIND = MappingProxyType({(kind.api_version, kind.kind): kind for kind in KINDS})
