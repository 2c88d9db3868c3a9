"""What `kubectl get -o yaml` prints of a live cluster is read as kube-scheduler sees it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.kube.manifests import read_manifests
from proreus.model.node import HOSTNAME, ZONE
from proreus.model.pod import SpreadConstraint
from proreus.model.selectors import match_labels
from proreus.model.workload import Workload
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.state.compile import compile_workload

Write = Callable[[str, str | bytes], Path]

NODES = """
- apiVersion: v1
  kind: Node
  metadata: {name: control}
  spec: {taints: [{key: node-role.kubernetes.io/control-plane, effect: NoSchedule}]}
  status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}
- apiVersion: v1
  kind: Node
  metadata: {name: worker}
  status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}
"""
CONTAINER = "containers: [{name: c, resources: {requests: {cpu: 1}}}]"


def dump(*items: str) -> str:
    return "apiVersion: v1\nkind: List\nitems:" + NODES + "".join(f"- {item}\n" for item in items)


def pod(name: str, *, spec: str = "", status: str = "", metadata: str = "") -> str:
    return (
        f"{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, {metadata}}}, "
        f"spec: {{{CONTAINER}, {spec}}}, status: {{{status}}}}}"
    )


def owned(kind: str, name: str) -> str:
    return f"ownerReferences: [{{apiVersion: apps/v1, kind: {kind}, name: {name}, controller: true}}]"


def template(labels: str = "app: web") -> str:
    made = f"template: {{metadata: {{labels: {{{labels}}}}}, spec: {{{CONTAINER}}}}}"
    return f"selector: {{matchLabels: {{{labels}}}}}, {made}"


def controller(kind: str, name: str, spec: str, metadata: str = "") -> str:
    return f"{{apiVersion: apps/v1, kind: {kind}, metadata: {{name: {name}, {metadata}}}, spec: {{{spec}}}}}"


def read(write: Write, *items: str) -> Workload:
    return read_manifests([write("dump.yaml", dump(*items))])


def names(workload: Workload) -> list[str]:
    return [each.name for each in workload.pods]


def test_running_pods_are_where_they_are_and_others_are_placed(write: Write) -> None:
    workload = read(
        write,
        pod("static", spec="nodeName: control", status="phase: Running"),
        pod("ran", spec="nodeName: worker", status="phase: Succeeded"),
        pod("crashed", spec="nodeName: gone", status="phase: Failed"),
        pod("new"),
    )
    assert [(each.name, each.node) for each in workload.pods] == [("static", "control"), ("new", "")]
    outcome = simulate(compile_workload(workload), make_policy("kube"))
    assert [row[:3] for row in outcome.log] == [
        ("static", "running", "control"),
        ("new", "running", "worker"),
    ]
    assert outcome.measures["decisions"] == 1


def test_what_is_left_out_is_told_in_one_line(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, logger="proreus"):
        workload = read(
            write,
            pod("done", status="phase: Succeeded"),
            pod("other", spec="schedulerName: volcano"),
            pod("theirs", spec="schedulerName: volcano, nodeName: worker"),
            pod("gated", spec="schedulingGates: [{name: g}]"),
            pod("deleted", metadata="deletionTimestamp: '2026-01-01T00:00:00Z'"),
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}",
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: d}}",
            "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j}}",
        )
    assert names(workload) == ["theirs"]
    (record,) = caplog.records
    assert record.getMessage() == (
        "dump.yaml: left out 2 of kind ConfigMap, 1 of kind Job, 1 pods for the scheduler volcano, "
        "1 pods that are deleted before they ran, 1 pods that are done, 1 pods that wait at a scheduling gate"
    )


def test_terminating_pods_hold_their_room_for_the_grace_and_do_not_count_for_spread(write: Write) -> None:
    going = "deletionTimestamp: '2026-01-01T00:00:00Z', labels: {app: web}"
    hard = "whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}"
    workload = read(
        write,
        pod("a", spec="nodeName: worker", metadata=f"{going}, deletionGracePeriodSeconds: 7"),
        pod("b", spec="nodeName: worker", metadata=going),
        pod(
            "c",
            spec=f"topologySpreadConstraints: [{{maxSkew: 1, topologyKey: kubernetes.io/hostname, {hard}}}]",
            metadata="labels: {app: web}",
        ),
    )
    assert [each.duration for each in workload.pods[:2]] == [7.0, 30.0]
    assert all(each.spec.terminating for each in workload.pods[:2])
    outcome = simulate(compile_workload(workload), make_policy("kube"))
    assert outcome.log[2][1:3] == ("running", "worker")


def test_controllers_make_only_the_pods_that_they_lack(write: Write) -> None:
    workload = read(
        write,
        controller("Deployment", "web", f"replicas: 3, {template()}"),
        controller("ReplicaSet", "web-5d", f"replicas: 3, {template()}", owned("Deployment", "web")),
        pod(
            "web-5d-x",
            spec="nodeName: worker",
            metadata=f"labels: {{app: web}}, {owned('ReplicaSet', 'web-5d')}",
        ),
        pod("web-5d-y", status="phase: Failed", metadata=owned("ReplicaSet", "web-5d")),
        controller("StatefulSet", "db", f"replicas: 3, {template('app: db')}"),
        pod("db-1", spec="nodeName: worker", metadata=f"labels: {{app: db}}, {owned('StatefulSet', 'db')}"),
        controller("DaemonSet", "agent", template("app: agent")),
        pod("agent-x", spec="nodeName: worker", metadata=owned("DaemonSet", "agent")),
        f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: sum}}, status: {{succeeded: 2}}, "
        f"spec: {{completions: 5, {template('app: sum')}}}}}",
        pod("sum-x", spec="nodeName: worker", metadata=owned("Job", "sum")),
        f"{{apiVersion: batch/v1, kind: Job, metadata: {{name: over}}, spec: {{{template('app: over')}}}, "
        "status: {conditions: [{type: Complete, status: 'True'}]}}",
    )
    assert names(workload) == [
        "web-5d-0", "web-5d-1", "web-5d-x", "db-0", "db-2", "db-1", "agent-x", "sum-0", "sum-1", "sum-x",
    ]  # fmt: skip
    owner = match_labels({"app": "web"})
    spreads = {each.name: each.spec.spread for each in workload.pods}
    assert spreads["web-5d-0"] == spreads["web-5d-x"] == default_spread(owner)
    assert spreads["agent-x"] == spreads["sum-0"] == ()


def default_spread(selector: object) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(selector, key, max_skew=skew, hard=False, system_default=True)  # type: ignore[arg-type]
        for key, skew in ((HOSTNAME, 3), (ZONE, 5))
    )


def test_services_give_the_default_spread_to_pods_that_nobody_owns(write: Write) -> None:
    service = "{apiVersion: v1, kind: Service, metadata: {name: s}, spec: {selector: {app: web}}}"
    workload = read(
        write,
        service,
        "{apiVersion: v1, kind: Service, metadata: {name: kubernetes}, spec: {}}",
        pod("a", metadata="labels: {app: web, tier: front}"),
        pod("b", metadata="labels: {app: db}"),
        pod("c", metadata="labels: {app: web}, namespace: elsewhere"),
    )
    selected = default_spread(match_labels({"app": "web"}))
    assert [each.spec.spread for each in workload.pods] == [selected, (), ()]


def test_a_replication_controller_selects_by_plain_labels(write: Write) -> None:
    workload = read(
        write,
        "{kind: ReplicationController, metadata: {name: rc}, spec: {replicas: 2, selector: {app: web}, "
        f"template: {{metadata: {{labels: {{app: web}}}}, spec: {{{CONTAINER}}}}}}}}}",
    )
    assert names(workload) == ["rc-0", "rc-1"]
    assert workload.pods[0].spec.spread == default_spread(match_labels({"app": "web"}))


def test_a_priority_that_is_written_down_needs_no_class(write: Write) -> None:
    workload = read(write, pod("p", spec="priorityClassName: vip, priority: 77"))
    assert workload.pods[0].spec.priority == 77


def test_a_running_pod_may_hold_claims_that_are_not_supported_elsewhere(write: Write) -> None:
    workload = read(write, pod("p", spec="nodeName: worker, resourceClaims: [{name: gpu}]"))
    assert workload.pods[0].node == "worker"


def test_a_pod_waits_for_a_volume_claim_that_is_not_there(write: Write) -> None:
    volume = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"
    claim = "{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}}"
    assert read(write, pod("p", spec=volume)).pods[0].spec.missing_claim
    assert not read(write, claim, pod("p", spec=volume)).pods[0].spec.missing_claim


def test_namespaces_are_selected_by_their_labels(write: Write) -> None:
    def selected(namespace: str, selector: str) -> tuple[tuple[str, ...], int]:
        term = f"{{topologyKey: z, labelSelector: {{}}, namespaceSelector: {{{selector}}}}}"
        affinity = f"affinity: {{podAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}"
        (pod_term,) = read(write, namespace, pod("p", spec=affinity)).pods[0].spec.affinity.required
        return pod_term.namespaces, len(pod_term.selector.requirements)

    team = "{apiVersion: v1, kind: Namespace, metadata: {name: east, labels: {team: x}}}"
    assert selected(team, "matchLabels: {team: x}") == (("east",), 0)
    assert selected(team, "") == (("default", "east"), 0)
    # No namespace is chosen: then no pod is, and not those of the pod's own namespace.
    assert selected(team, "matchLabels: {team: y}") == ((), 1)


def test_pod_level_requests_and_limits(write: Write) -> None:
    def amounts(resources: str) -> tuple[int, tuple[int, int], tuple[int, int]]:
        spec = read(write, pod("p", spec=f"resources: {{{resources}}}")).pods[0].spec
        return spec.requests.cpu, spec.scored_requests(), spec.scored_incoming()

    mib200 = 200 * 2**20
    assert amounts("requests: {cpu: 3}") == (3000, (3000, mib200), (1000, mib200))
    # Limits alone: what containers ask for is the request; where they ask for nothing, the limit is.
    assert amounts("limits: {cpu: 3, memory: 1Gi}") == (1000, (1000, 2**30), (1000, mib200))


def test_policies_of_spread_constraints(write: Write) -> None:
    rule = "maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule"
    spec = f"topologySpreadConstraints: [{{{rule}, nodeTaintsPolicy: Honor, nodeAffinityPolicy: Ignore}}]"
    (constraint,) = read(write, pod("p", spec=spec)).pods[0].spec.spread
    assert (constraint.honors_affinity, constraint.honors_taints) == (False, True)
