"""A running service as a policy: what a simulator, an engine or a comparison asks goes to /v1/decide.

The cluster is described once as it stands, pod by pod, and then by what has changed, so that the service sees
what a policy in this process would see. Pods that are yet to come stay behind.
"""

from __future__ import annotations

import msgspec
import numpy as np

from proreus.model.decision import Decision, Place, from_action
from proreus.model.node import Node
from proreus.model.pod import GPU_WHOLE, Pod
from proreus.model.resources import BASE_COLUMNS, CPU, GPU, Resources
from proreus.policies.protocol import Explanation, Verdict
from proreus.serving.client.cluster_session import Described, KeptCluster
from proreus.serving.client.rest import RestClient
from proreus.serving.cluster_api.changes import AddPod, BudgetWire, Change, RemovePod
from proreus.serving.cluster_api.request import DecideAnswer, DecideRequest
from proreus.serving.cluster_api.schema import (
    Amounts,
    GpuWire,
    NodeAffinityWire,
    NodeWire,
    PodAffinityWire,
    PodWire,
    SpreadWire,
    TaintWire,
    TolerationWire,
)
from proreus.worlds.pods.state.observation import PodObservation


class RemotePolicy:
    """Decides by asking a service, which keeps the cluster of the run and the memory of its policy."""

    def __init__(self, client: RestClient, name: str = "remote") -> None:
        self._client = client
        self.name = name
        self._followed: _Followed | None = None

    def fresh(self, seed: int) -> RemotePolicy:
        """Without memory of other runs; what goes by lot is the service's affair."""
        del seed
        return RemotePolicy(self._client, self.name)

    def decide(self, observation: PodObservation) -> Decision:
        """What the service's policy decides."""
        return _decision(self._ask(observation), observation)

    def explain(self, observation: PodObservation) -> Explanation:
        """The same with its reasons, asked apart: a question changes the memory of a policy."""
        answer = self._client.decide(request_of(observation, explain=True))
        verdicts = tuple(
            Verdict(verdict.node, verdict.refused_by, verdict.scores, verdict.total)
            for verdict in answer.verdicts or ()
        )
        note = f"By {answer.policy} of the service ({answer.decided_by}). {answer.note}"
        decision = _decision(answer, observation)
        return Explanation(self.name, observation.subject.name, decision, verdicts, note)

    def _ask(self, observation: PodObservation) -> DecideAnswer:
        followed = self._followed
        if followed is None or followed.state is not observation.state:
            followed = self._followed = _Followed(self._client, observation)
        return followed.ask(observation)


class _Followed:
    """A run that the service hears of: its cluster there, and what of it has been told."""

    def __init__(self, client: RestClient, observation: PodObservation) -> None:
        self.state = observation.state
        self._observation = observation
        self._client, self._kept = client, KeptCluster(client, self._describe)
        pods = observation.compiled.workload.pods
        self._tells_apart = len({pod.name for pod in pods}) == len(pods)
        self._told()

    def ask(self, observation: PodObservation) -> DecideAnswer:
        """What the service says of the pod; where pods share names, changes could not say which is meant."""
        if not self._tells_apart:
            return self._client.decide(request_of(observation, explain=False))
        self._observation = observation
        self._kept.note(*self._changes())
        self._told()
        pod = pod_wire(observation.subject)
        return self._kept.decide(pod, waiting=observation.waiting)

    def _describe(self) -> Described:
        whole = request_of(self._observation, explain=False)
        return whole.nodes, whole.budgets

    def _told(self) -> None:
        self._node, self._rank = self.state.pod_node.copy(), self.state.pod_rank.copy()

    def _changes(self) -> list[Change]:
        """Who left, then who came, in the order in which they were placed."""
        state, workload = self.state, self._observation.compiled.workload
        placed = state.pod_node >= 0
        changed = (state.pod_node != self._node) | (placed & (state.pod_rank != self._rank))
        left = np.flatnonzero(changed & (self._node >= 0)).tolist()
        came = np.flatnonzero(changed & placed).tolist()
        removed: list[Change] = [RemovePod(workload.pods[index].name) for index in left]
        added: list[Change] = [
            AddPod(_running(self._observation, index), workload.nodes[int(state.pod_node[index])].name)
            for index in sorted(came, key=lambda pod: int(state.pod_rank[pod]))
        ]
        return removed + added


def _running(observation: PodObservation, index: int) -> PodWire:
    """A pod that is placed."""
    state = observation.state
    wire = pod_wire(observation.compiled.workload.pods[index], int(state.pod_devices[index]))
    return msgspec.structs.replace(wire, since=float(state.pod_since[index]))


def request_of(observation: PodObservation, *, explain: bool) -> DecideRequest:
    """An observation in named fields."""
    workload, state = observation.compiled.workload, observation.state
    running: dict[int, list[PodWire]] = {}
    placed = state.pod_node >= 0
    # In order of placement, so that the service's cluster has the same history.
    for index in sorted(placed.nonzero()[0].tolist(), key=lambda pod: int(state.pod_rank[pod])):
        running.setdefault(int(state.pod_node[index]), []).append(_running(observation, index))
    nodes = [
        msgspec.structs.replace(node_wire(node, tuple(running.get(n, ()))), **_unlisted(observation, n))
        for n, node in enumerate(workload.nodes)
    ]
    budgets = [msgspec.convert(budget, BudgetWire, from_attributes=True) for budget in workload.budgets]
    return DecideRequest(pod_wire(observation.subject), nodes, observation.waiting, explain, budgets)


def _unlisted(observation: PodObservation, n: int) -> dict[str, Amounts | tuple[int, ...]]:
    """What is in use on node n without belonging to a pod: `used` and `gpu_used`, where there is any."""
    cluster, state = observation.cluster, observation.state
    here = np.flatnonzero(state.pod_node == n)
    classes = cluster.pod_class[here]
    used = cluster.nodes.allocatable[n] - state.free[n] - cluster.classes.request[classes].sum(axis=0)
    gpus = int(cluster.nodes.gpu_count[n])
    held = GPU_WHOLE - state.gpu_left[n, :gpus]
    for pod, kind in zip(here.tolist(), classes.tolist(), strict=True):
        mask = int(state.pod_devices[pod])
        held -= int(cluster.classes.gpu_milli[kind]) * (mask >> np.arange(gpus) & 1)
    found: dict[str, Amounts | tuple[int, ...]] = {}
    if used.any():
        found["used"] = {
            name: f"{amount}m" if name == CPU else amount
            # An open cluster may have spare columns behind those that have a name.
            for name, amount in zip(observation.compiled.columns, used.tolist(), strict=False)
            if amount
        }
    if held.any():
        found["gpu_used"] = tuple(held.tolist())
    return found


def node_wire(node: Node, pods: tuple[PodWire, ...]) -> NodeWire:
    """A node in named fields."""
    allocatable = _amounts(node.allocatable)
    if node.gpu_count:
        allocatable[GPU] = node.gpu_count
    return NodeWire(
        name=node.name,
        allocatable=allocatable,
        gpu_model=node.gpu_model,
        labels=dict(node.labels),
        taints=tuple(TaintWire(taint.key, taint.effect, taint.value) for taint in node.taints),
        unschedulable=node.unschedulable,
        images=dict(node.images),
        pods=pods,
    )


def pod_wire(pod: Pod, devices: int = 0) -> PodWire:
    """A pod in named fields; `devices`: bit mask of the GPUs it holds."""
    spec = pod.spec
    gpu = GpuWire(spec.gpu.count, spec.gpu.milli, spec.gpu.models) if spec.gpu.count else None
    return PodWire(
        name=pod.name,
        requests=_amounts(spec.requests),
        gpu=gpu,
        namespace=spec.namespace,
        labels=dict(spec.labels),
        priority=spec.priority,
        may_preempt=spec.may_preempt,
        tolerations=tuple(msgspec.convert(t, TolerationWire, from_attributes=True) for t in spec.tolerations),
        node_name=spec.node_name,
        node_selector=dict(spec.node_selector),
        node_affinity=msgspec.convert(spec.node_affinity, NodeAffinityWire, from_attributes=True),
        affinity=msgspec.convert(spec.affinity, PodAffinityWire, from_attributes=True),
        anti_affinity=msgspec.convert(spec.anti_affinity, PodAffinityWire, from_attributes=True),
        spread=tuple(msgspec.convert(s, SpreadWire, from_attributes=True) for s in spec.spread),
        host_ports=spec.host_ports,
        images=spec.images,
        image_volumes=spec.image_volumes,
        missing_claim=spec.missing_claim,
        terminating=spec.terminating,
        scoring=spec.scoring,
        scoring_incoming=spec.scoring_incoming,
        cpu_limit=spec.cpu_limit,
        usage=spec.usage,
        usage_deviation=spec.usage_deviation,
        devices=tuple(device for device in range(devices.bit_length()) if devices >> device & 1),
    )


def _amounts(resources: Resources) -> Amounts:
    amounts: Amounts = {
        name: f"{amount}m" if name == CPU else amount
        for name, amount in (*zip(BASE_COLUMNS, resources.base(), strict=True), *resources.extended)
        if amount
    }
    return amounts


def _decision(answer: DecideAnswer, observation: PodObservation) -> Decision:
    decision = from_action(answer.action, len(observation.compiled.workload.nodes))
    if isinstance(decision, Place):
        return Place(decision.node, sum(1 << device for device in answer.devices))
    return decision
