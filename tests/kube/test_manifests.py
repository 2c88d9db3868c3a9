"""Kubernetes manifests map to the model as kube-scheduler would see them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from proreus.kube.manifests import read_manifests
from proreus.model.errors import InputError
from proreus.model.node import HOSTNAME, ZONE, Effect, Taint, Toleration
from proreus.model.pod import GpuRequest, NodeTerm, Pod, PodTerm, SpreadConstraint
from proreus.model.resources import GIB, MIB, Resources
from proreus.model.selectors import Operator, Requirement, Selector, match_labels
from proreus.model.workload import Workload

Write = Callable[[str, str | bytes], Path]

HARD = "whenUnsatisfiable: DoNotSchedule"
NODE = """
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}
---
"""


@pytest.fixture(scope="module")
def shop() -> Workload:
    return read_manifests([Path(__file__).parents[1] / "fixtures" / "shop.yaml"])


def named(workload: Workload, name: str) -> Pod:
    (pod,) = (pod for pod in workload.pods if pod.name == name)
    return pod


def pod_with(spec: str, metadata: str = "name: p") -> str:
    return f"{NODE}kind: Pod\nmetadata: {{{metadata}}}\nspec: {{containers: [{{name: c}}], {spec}}}\n"


def test_nodes(shop: Workload) -> None:
    plain, gpus = shop.nodes
    assert plain.allocatable == Resources(7500, 15 * GIB, 10 * GIB, 110, 1000)
    assert plain.images == (("registry/web:1", 50_000_000), ("registry/web@sha256:0", 50_000_000))
    assert gpus.allocatable == Resources(16_000, 64 * GIB, pods=110, extended=(("example.com/fpga", 2),))
    assert (gpus.gpu_count, gpus.gpu_model, gpus.unschedulable) == (4, "T4", True)
    assert gpus.taints == (Taint("dedicated", "gpu", Effect.NO_SCHEDULE),)
    assert plain.label_map() == {HOSTNAME: "plain", ZONE: "a"}


def test_requests_are_the_larger_of_running_and_starting_plus_overhead(shop: Workload) -> None:
    spec = named(shop, "full").spec
    # CPU: the init container (2000) beside the sidecar (100) needs more than all that run later (850).
    assert spec.requests == Resources(
        cpu=2100 + 10,
        memory=(256 + 128 + 64 + 1) * MIB,
        network=100,
        extended=(("example.com/fpga", 1),),
    )
    assert spec.scoring == (2110, 449 * MIB)
    assert spec.gpu == GpuRequest(2, 1000)
    assert spec.cpu_limit == 1250


def test_unstated_requests_score_per_container(shop: Workload) -> None:
    shared = named(shop, "shared").spec
    assert shared.requests == Resources()
    assert shared.scored_requests() == (200, 400 * MIB)
    assert shared.cpu_limit == 0
    agent = named(shop, "agent-plain").spec
    assert agent.scored_requests() == (50, 200 * MIB)


def test_shared_gpus_come_from_annotations(shop: Workload) -> None:
    assert named(shop, "shared").spec.gpu == GpuRequest(2, 250, ("T4", "A10", "G2"))


def test_priorities(shop: Workload) -> None:
    full, shared = named(shop, "full").spec, named(shop, "shared").spec
    assert (full.priority, full.may_preempt) == (1000, False)
    assert (shared.priority, shared.may_preempt) == (2_000_001_000, True)


def test_placement_rules(shop: Workload) -> None:
    spec = named(shop, "full").spec
    assert spec.node_selector == (("disk", "ssd"),)
    assert spec.tolerations == (
        Toleration("dedicated", "gpu", effect=Effect.NO_SCHEDULE),
        Toleration(exists=True),
    )
    cores = Selector((Requirement("cores", Operator.GT, ("4",)),))
    elsewhere = Selector((Requirement("metadata.name", Operator.NOT_IN, ("plain",)),))
    assert spec.node_affinity.required == (NodeTerm(cores, elsewhere), NodeTerm())
    fast = Selector((Requirement("fast", Operator.EXISTS),))
    assert spec.node_affinity.preferred == ((10, NodeTerm(fast)),)
    assert spec.affinity.required == (PodTerm(match_labels({"app": "web"}), ZONE, ("prod",)),)
    not_web = Selector((Requirement("app", Operator.NOT_IN, ("web",)),))
    assert spec.anti_affinity.preferred == ((100, PodTerm(not_web, HOSTNAME, ("default", "prod"))),)
    both = match_labels({"app": "full", "version": "v2"})
    assert spec.spread == (SpreadConstraint(both, ZONE, max_skew=2, min_domains=3),)


def test_host_ports_and_images(shop: Workload) -> None:
    spec = named(shop, "full").spec
    assert spec.host_ports == (("", "TCP", 8081), ("", "TCP", 15000), ("10.0.0.1", "UDP", 53))
    assert spec.images == ("mesh:latest", "registry:5000/fetch:latest", "registry/web:1", "")
    assert named(shop, "shared").spec.host_ports == (("", "TCP", 9100),)


def test_time_comes_from_annotations(shop: Workload) -> None:
    full, web = named(shop, "full"), named(shop, "prod/web-0")
    assert (full.arrival, full.duration) == (30.0, 12.5)
    assert (web.arrival, web.duration) == (5.0, 60.0)
    assert (named(shop, "shared").arrival, named(shop, "shared").duration) == (0.0, math.inf)
    assert [pod.arrival for pod in shop.pods] == sorted(pod.arrival for pod in shop.pods)


def test_controllers_become_pods(shop: Workload) -> None:
    assert {pod.name for pod in shop.pods} == {
        "full", "shared", "prod/web-0", "prod/web-1", "prod/web-2", "agent-plain", "report-0", "report-1",
    }  # fmt: skip
    assert named(shop, "report-1").job == "report"
    assert named(shop, "prod/web-0").spec.namespace == "prod"


def test_replicated_pods_get_the_system_default_spread(shop: Workload) -> None:
    selector = match_labels({"app": "web"})
    assert named(shop, "prod/web-0").spec.spread == (
        SpreadConstraint(selector, HOSTNAME, max_skew=3, hard=False, system_default=True),
        SpreadConstraint(selector, ZONE, max_skew=5, hard=False, system_default=True),
    )
    assert named(shop, "report-0").spec.spread == ()


def test_daemons_are_bound_to_the_nodes_that_admit_them(shop: Workload) -> None:
    # The tainted GPU node admits no agent; being unschedulable alone would not keep it away.
    agent = named(shop, "agent-plain").spec
    assert (agent.node_affinity.names(), agent.node_name) == (frozenset({"plain"}), "")
    assert any(
        toleration.tolerates(Taint("node.kubernetes.io/unschedulable")) for toleration in agent.tolerations
    )


def test_percentages_of_budgets_round_up(shop: Workload) -> None:
    (budget,) = shop.budgets
    assert (budget.name, budget.namespace, budget.max_unavailable) == ("web", "prod", 2)


def test_global_default_priority_and_explicit_spread(write: Write) -> None:
    text = (
        NODE
        + """
kind: PriorityClass
metadata: {name: usual}
value: -5
globalDefault: true
---
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchExpressions: [{key: app, operator: Exists}]}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c}]
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway}
"""
    )
    (pod,) = read_manifests([write("m.yaml", text)]).pods
    assert (pod.name, pod.spec.priority) == ("db-0", -5)
    (constraint,) = pod.spec.spread
    assert not constraint.hard and not constraint.system_default
    assert not constraint.selector.matches({"app": "db"}), "an absent selector selects nothing"


def test_pod_level_requests_replace_the_sum(write: Write) -> None:
    text = pod_with("resources: {requests: {cpu: 3}}, overhead: {cpu: 1}")
    (pod,) = read_manifests([write("m.yaml", text)]).pods
    assert pod.spec.requests.cpu == 4000


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        (NODE + "metadata: {name: s}\n", "kind", "the field is missing"),
        (pod_with("", "labels: {a: b}"), "metadata.name", "the field is missing"),
        (pod_with("priorityClassName: vip"), "spec.priorityClassName", "no PriorityClass 'vip'"),
        (pod_with("preemptionPolicy: Maybe"), "spec.preemptionPolicy", "or Never"),
        (pod_with("nodeName: elsewhere"), "spec", "no node 'elsewhere'"),
        (pod_with("resourceClaims: [{name: g}]"), "spec.resourceClaims", "not supported"),
        (pod_with("overhead: {cpu: -1}"), "spec.overhead.cpu", "negative"),
        (pod_with("overhead: {memory: 1Gb}"), "spec.overhead.memory", "not a quantity"),
        (pod_with("tolerations: [{key: a, operator: Lt}]"), "spec.tolerations[0].operator", "neither Equal"),
        (pod_with("tolerations: [{value: a}]"), "spec.tolerations[0]", "needs the operator Exists"),
        (pod_with("tolerations: [{key: a, effect: No}]"), "spec.tolerations[0].effect", "not one of"),
        (
            pod_with("", "name: p, annotations: {proreus.io/arrival: '-4'}"),
            "metadata.annotations.proreus.io/arrival",
            "negative",
        ),
        (
            pod_with("", "name: p, annotations: {proreus.io/gpu-milli: '1001'}"),
            "metadata.annotations.proreus.io/gpu-milli",
            "above 1000",
        ),
        (
            pod_with("overhead: {nvidia.com/gpu: 1}", "name: p, annotations: {proreus.io/gpu-count: '1'}"),
            "metadata.annotations.proreus.io/gpu-count",
            "cannot ask for shared GPUs",
        ),
        (
            pod_with(f"topologySpreadConstraints: [{{maxSkew: 0, topologyKey: z, {HARD}}}]"),
            "spec.topologySpreadConstraints[0].maxSkew",
            "below 1",
        ),
        (
            pod_with("topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: Never}]"),
            "spec.topologySpreadConstraints[0].whenUnsatisfiable",
            "neither DoNotSchedule",
        ),
        (
            pod_with(
                f"topologySpreadConstraints: [{{maxSkew: 1, topologyKey: z, {HARD}, nodeTaintsPolicy: No}}]"
            ),
            "spec.topologySpreadConstraints[0].nodeTaintsPolicy",
            "neither Honor nor Ignore",
        ),
        (
            pod_with("affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {x: 1}}}"),
            "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
            "no node can match",
        ),
        (NODE + NODE, "metadata.name", "two nodes are named 'n'"),
        (pod_with("") + "---\n" + pod_with("").removeprefix(NODE), "metadata.name", "two pods are named 'p'"),
        (NODE + "kind: Pod\nmetadata: {name: p}\nspec: {containers: []}\n", "spec", "at least one container"),
        ("kind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c}]}\n", "kind", "hold no Node"),
        ("kind: Node\nmetadata: {name: p}\nstatus: {}\n", "status", "allocatable resources or its capacity"),
        (NODE + "kind: List\nitems: [{kind: List}]\n", "items[0].kind", "a List within a List"),
        (
            NODE + "kind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {selector: {}}\n",
            "spec",
            "either minAvailable or maxUnavailable",
        ),
        (
            NODE + "kind: PodDisruptionBudget\nmetadata: {name: b}\nspec: {minAvailable: x%}\n",
            "spec.minAvailable",
            "not a number",
        ),
    ],
)  # fmt: skip
def test_errors_name_file_line_and_field(write: Write, text: str, field: str, message: str) -> None:
    path = write("m.yaml", text)
    with pytest.raises(InputError, match=message) as caught:
        read_manifests([path])
    assert (caught.value.file, caught.value.field) == (path, field)
    assert caught.value.line is not None or "hold no Node" in message


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("{key: a, operator: In}", "need at least one value"),
        ("{key: a, operator: Exists, values: [b]}", "take no values"),
        ("{key: a, operator: Gt, values: ['1', '2']}", "exactly one value"),
        ("{key: a, operator: Near, values: [b]}", "'Near' is not one of"),
    ],
)
def test_bad_expressions(write: Write, expression: str, message: str) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = f"nodeSelectorTerms: [{{matchExpressions: [{expression}]}}]"
    text = pod_with(f"affinity: {{nodeAffinity: {{{required}: {{{terms}}}}}}}")
    with pytest.raises(InputError, match=message) as caught:
        read_manifests([write("m.yaml", text)])
    assert "matchExpressions[0]" in (caught.value.field or "")


def test_selector_must_match_the_template(write: Write) -> None:
    text = NODE + (
        "kind: ReplicaSet\nmetadata: {name: r}\nspec:\n  selector: {matchLabels: {a: b}}\n"
        "  template: {metadata: {labels: {a: c}}, spec: {containers: [{name: c}]}}\n"
    )
    with pytest.raises(InputError, match=r"spec\.selector: the selector does not match"):
        read_manifests([write("m.yaml", text)])


def test_several_files_form_one_workload(write: Write) -> None:
    pod = pod_with("").removeprefix(NODE)
    workload = read_manifests([write("nodes.yaml", NODE), write("pods.yaml", pod)])
    assert (workload.name, len(workload.nodes), len(workload.pods)) == ("nodes", 1, 1)


def test_absurd_replicas_are_refused(write: Write) -> None:
    text = NODE + (
        "kind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: 1000000000\n"
        "  selector: {}\n  template: {spec: {containers: [{name: c}]}}\n"
    )
    with pytest.raises(InputError, match=r"spec\.replicas: '1000000000' is above"):
        read_manifests([write("m.yaml", text)])
