"""A Kubernetes pod template as the model's `PodSpec`, by kube-scheduler's own rules.

Called by `manifests` for every pod and controller and by `k8ssim` for the tasks of Volcano jobs. Of volumes
it counts only that a claim exists and which images are mounted. Resource claims are refused, since a pod
that has them would be placed wrongly without them; on a pod that runs already they do no harm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from proreus.data.cursor import Entry
from proreus.kube.constraints import (
    Carrier,
    read_node_affinity,
    read_pod_affinity,
    read_spread,
    read_toleration,
)
from proreus.model.pod import GPU_WHOLE, UNSTATED_CPU, UNSTATED_MEMORY, GpuRequest, PodSpec
from proreus.model.resources import CPU, DISK, EPHEMERAL, GPU, MEMORY, NETWORK, PODS, Resources

GPU_MILLI = "proreus.io/gpu-milli"
GPU_COUNT = "proreus.io/gpu-count"
GPU_MODELS = "proreus.io/gpu-models"

_COLUMNS = frozenset({CPU, MEMORY, EPHEMERAL, PODS, NETWORK, DISK, GPU})
_UNSTATED = {CPU: UNSTATED_CPU, MEMORY: UNSTATED_MEMORY}
_EVERY_ADDRESS = ("", "0.0.0.0")
_HUGE_PAGES = "hugepages-"
NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that Kubernetes itself gives every namespace."""
_Amounts = dict[str, int]


@dataclass(frozen=True)
class PriorityClass:
    """What a priorityClassName stands for."""

    value: int
    may_preempt: bool = True


@dataclass(frozen=True)
class TemplateReferences:
    """What a pod template refers to without containing it."""

    namespace: str = "default"
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    default_priority: PriorityClass = field(default_factory=lambda: PriorityClass(0))
    namespaces: Mapping[str, Mapping[str, str]] = field(
        default_factory=lambda: {"default": {NAMESPACE_NAME: "default"}}
    )
    """The labels of every namespace: what a namespaceSelector chooses from."""
    claims: frozenset[tuple[str, str]] | None = None
    """(namespace, name) of every volume claim; None where they are not known."""


def read_pod_spec(template: Entry, around: TemplateReferences) -> PodSpec:
    """The spec of a Pod object or of a pod template (anything with metadata and spec)."""
    spec = template.require("spec")
    placed = bool(spec.text_at("nodeName"))
    if spec.children("resourceClaims") and not placed:
        claims = spec.require("resourceClaims")
        raise claims.fail("resource claims (dynamic resource allocation) are not supported")
    containers = spec.children("containers")
    if not containers:
        raise spec.fail("a pod needs at least one container")
    init_containers = spec.children("initContainers")
    amounts = _Amounted(spec, containers, init_containers)
    requested = amounts.requested()
    scored, incoming = amounts.scored(), amounts.scored_incoming()
    labels = template.texts("metadata.labels")
    carrier = Carrier(dict(labels), around.namespaces)
    priority, may_preempt = _priority(spec, around)
    affinity = spec.find("affinity")
    return PodSpec(
        requests=to_resources(requested),
        gpu=_gpu(template, requested.get(GPU, 0)),
        namespace=around.namespace,
        labels=labels,
        priority=priority,
        may_preempt=may_preempt,
        tolerations=tuple(map(read_toleration, spec.children("tolerations"))),
        node_name=spec.text_at("nodeName"),
        node_selector=spec.texts("nodeSelector"),
        node_affinity=read_node_affinity(affinity.find("nodeAffinity") if affinity else None),
        affinity=read_pod_affinity(affinity.find("podAffinity") if affinity else None, carrier),
        anti_affinity=read_pod_affinity(affinity.find("podAntiAffinity") if affinity else None, carrier),
        spread=tuple(read_spread(item, carrier) for item in spec.children("topologySpreadConstraints")),
        host_ports=_host_ports(spec, containers, init_containers),
        images=tuple(_image(container.text_at("image")) for container in (*init_containers, *containers)),
        image_volumes=tuple(
            _image(reference.text())
            for volume in spec.children("volumes")
            if (reference := volume.find("image.reference")) is not None
        ),
        missing_claim=_misses_claim(spec, around),
        terminating=template.find("metadata.deletionTimestamp") is not None,
        scoring=scored,
        scoring_incoming=None if incoming == scored else incoming,
        cpu_limit=_cpu_limit(containers),
    )


def read_amounts(entry: Entry, path: str) -> dict[str, int]:
    """The resource list under a dotted path, CPU in thousandths and everything else in units."""
    return {name: amount.quantity(scale=1000 if name == CPU else 1) for name, amount in entry.entries(path)}


def to_resources(amounts: Mapping[str, int]) -> Resources:
    """Named amounts as the model's resources; GPUs are left out, they are devices."""
    return Resources(
        cpu=amounts.get(CPU, 0),
        memory=amounts.get(MEMORY, 0),
        ephemeral=amounts.get(EPHEMERAL, 0),
        pods=amounts.get(PODS, 0),
        network=amounts.get(NETWORK, 0),
        disk=amounts.get(DISK, 0),
        extended=tuple(
            (name, amount) for name, amount in sorted(amounts.items()) if amount and name not in _COLUMNS
        ),
    )


@dataclass(frozen=True)
class _Amounted:
    """What a pod asks for, in the three ways in which kube-scheduler adds it up."""

    spec: Entry
    containers: tuple[Entry, ...]
    init_containers: tuple[Entry, ...]

    def requested(self) -> _Amounts:
        """What the pod takes: pod-level requests in place of what its containers add up to, and overhead."""
        return self._sum({}, self._pod_level())

    def scored(self) -> tuple[int, int]:
        """CPU and memory of the placed pod in scores: what is stated nowhere counts by its default."""
        pod_level = self._pod_level()
        stated = self.requested() if pod_level else {}
        return _cpu_and_memory(
            self._sum({name: amount for name, amount in _UNSTATED.items() if name not in stated}, pod_level)
        )

    def scored_incoming(self) -> tuple[int, int]:
        """CPU and memory that NodeResourcesFit scores the incoming pod by: those of its containers alone."""
        return _cpu_and_memory(self._sum(_UNSTATED, {}))

    def _sum(self, unstated: _Amounts, pod_level: _Amounts) -> _Amounts:
        return _sum({**self._of_containers(unstated), **pod_level}, read_amounts(self.spec, "overhead"))

    def _of_containers(self, unstated: _Amounts) -> _Amounts:
        """max(containers + sidecars, what the init containers need at their worst)."""
        running: _Amounts = {}
        for container in self.containers:
            running = _sum(running, _container_requests(container, unstated))
        sidecars: _Amounts = {}
        starting: _Amounts = {}
        for container in self.init_containers:
            needed = _container_requests(container, unstated)
            if _is_sidecar(container):
                sidecars = _sum(sidecars, needed)
                starting = _largest(starting, sidecars)
            else:
                # Sidecars declared before an init container already run while it does.
                starting = _largest(starting, _sum(sidecars, needed))
        return _largest(_sum(running, sidecars), starting)

    def _pod_level(self) -> _Amounts:
        """The pod-level requests, defaulted as the API server does where the pod has pod-level limits.

        What they leave open is what the containers ask for; where these ask for nothing, it is the limit.
        """
        requests = read_amounts(self.spec, "resources.requests")
        limits = read_amounts(self.spec, "resources.limits")
        if limits:
            asked = {
                name: amount
                for name, amount in self._of_containers({}).items()
                if not name.startswith(_HUGE_PAGES)
            }
            requests = {**limits, **asked, **requests}
        return {
            name: amount
            for name, amount in requests.items()
            if name in (CPU, MEMORY) or name.startswith(_HUGE_PAGES)
        }


def _cpu_and_memory(amounts: _Amounts) -> tuple[int, int]:
    return amounts.get(CPU, 0), amounts.get(MEMORY, 0)


def _container_requests(container: Entry, unstated: _Amounts) -> _Amounts:
    requests = read_amounts(container, "resources.requests")
    if PODS in requests:
        raise container.require(f"resources.requests.{PODS}").fail("a container cannot request pods")
    # The API server copies a limit into a request that is not stated; only then do defaults apply.
    return {**unstated, **read_amounts(container, "resources.limits"), **requests}


def _is_sidecar(container: Entry) -> bool:
    return container.text_at("restartPolicy") == "Always"


def _sum(first: _Amounts, second: _Amounts) -> _Amounts:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _largest(first: _Amounts, second: _Amounts) -> _Amounts:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}


def _gpu(template: Entry, whole: int) -> GpuRequest:
    annotations = {name: entry.unquoted() for name, entry in template.entries("metadata.annotations")}
    models: tuple[str, ...] = ()
    if GPU_MODELS in annotations:
        parts = re.split(r"[|,]", annotations[GPU_MODELS].text())
        models = tuple(part.strip() for part in parts if part.strip())
    shared = [annotations[name] for name in (GPU_MILLI, GPU_COUNT) if name in annotations]
    if not shared:
        return GpuRequest(whole, GPU_WHOLE, models) if whole else GpuRequest()
    if whole:
        raise shared[0].fail(f"a pod that requests {GPU} cannot ask for shared GPUs too")
    count = annotations[GPU_COUNT].integer(minimum=1) if GPU_COUNT in annotations else 1
    milli = GPU_WHOLE
    if GPU_MILLI in annotations:
        milli = annotations[GPU_MILLI].integer(minimum=1, maximum=GPU_WHOLE)
    return GpuRequest(count, milli, models)


def _priority(spec: Entry, around: TemplateReferences) -> tuple[int, bool]:
    named = spec.find("priorityClassName")
    chosen = around.default_priority
    if named is not None and named.text():
        if named.text() in around.priority_classes:
            chosen = around.priority_classes[named.text()]
        elif spec.find("priority") is None:  # pods of a cluster have it written down
            raise named.fail(f"there is no PriorityClass {named.text()!r}")
    policy = spec.find("preemptionPolicy")
    may_preempt = chosen.may_preempt if policy is None else read_preemption_policy(policy)
    return spec.integer_at("priority", chosen.value, minimum=-(2**31)), may_preempt


def read_preemption_policy(entry: Entry) -> bool:
    """Whether a preemptionPolicy lets a pod preempt."""
    match entry.text():
        case "PreemptLowerPriority":
            return True
        case "Never":
            return False
        case _:
            raise entry.fail("preemptionPolicy is PreemptLowerPriority or Never")


def _host_ports(
    spec: Entry, containers: tuple[Entry, ...], init_containers: tuple[Entry, ...]
) -> tuple[tuple[str, str, int], ...]:
    host_network = spec.truth_at("hostNetwork")
    ports = []
    for container in (*containers, *filter(_is_sidecar, init_containers)):
        for port in container.children("ports"):
            number = port.integer_at("hostPort", 0, maximum=65_535)
            if number == 0 and host_network:
                number = port.require("containerPort").integer(minimum=1, maximum=65_535)
            if number > 0:
                address = port.text_at("hostIP")
                address = "" if address in _EVERY_ADDRESS else address
                ports.append((address, port.text_at("protocol", "TCP"), number))
    return tuple(sorted(set(ports)))


def _misses_claim(spec: Entry, around: TemplateReferences) -> bool:
    """Whether a volume of the pod is a claim that nobody made."""
    if around.claims is None:
        return False
    named = (volume.find("persistentVolumeClaim.claimName") for volume in spec.children("volumes"))
    return any(name is not None and (around.namespace, name.text()) not in around.claims for name in named)


def _image(name: str) -> str:
    """The image name with the tag that the kubelet would add."""
    return name if not name or name.rfind(":") > name.rfind("/") else f"{name}:latest"


def _cpu_limit(containers: tuple[Entry, ...]) -> int:
    """The sum of the CPU limits; one container without a limit leaves the pod without one."""
    limits = [container.find(f"resources.limits.{CPU}") for container in containers]
    stated = [limit.quantity(scale=1000) for limit in limits if limit is not None]
    return sum(stated) if len(stated) == len(limits) else 0
