"""Golden cases of the filters. Beside each list stands why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Unpack

from proreus.model.node import HOSTNAME, ZONE, Effect, Taint, Toleration
from proreus.model.pod import NodeAffinity, NodeTerm, PodAffinity, PodTerm, SpreadConstraint
from proreus.model.selectors import Selector, match_labels
from tests.oracles.kube_builders import (
    Case,
    NodeOptions,
    PodOptions,
    app,
    condition,
    near,
    node,
    node_term,
    pod,
    runs,
)

NAME, CORDON, TAINT, AFFINITY = "NodeName", "NodeUnschedulable", "TaintToleration", "NodeAffinity"
PORTS, FIT, GPU, SPREAD, PODS = (
    "NodePorts",
    "NodeResourcesFit",
    "Gpu",
    "PodTopologySpread",
    "InterPodAffinity",
)

NAME_CASES = (
    Case(
        name="NodeName: only the node that the pod names",
        nodes=(node("a"), node("b"), node("c")),
        pod=pod(node_name="b"),
        expected_filter=[NAME, None, NAME],
        expected_resolvable=[False, None, False],
    ),
    Case(
        name="NodeUnschedulable: a cordoned node is out",
        nodes=(node("a", unschedulable=True), node("b")),
        pod=pod(),
        expected_filter=[CORDON, None],
        expected_resolvable=[False, None],
    ),
    Case(
        name="NodeUnschedulable: tolerated like a NoSchedule taint",
        nodes=(node("a", unschedulable=True), node("b")),
        pod=pod(tolerations=(Toleration("node.kubernetes.io/unschedulable", exists=True),)),
        expected_filter=[None, None],
    ),
    Case(
        name="NodeUnschedulable: a toleration of another effect does not help",
        nodes=(node("a", unschedulable=True), node("b")),
        pod=pod(
            tolerations=(
                Toleration("node.kubernetes.io/unschedulable", exists=True, effect=Effect.NO_EXECUTE),
            )
        ),
        expected_filter=[CORDON, None],
    ),
    Case(
        name="order: the first plugin of kube's order gives the reason",
        # cordoned, tainted, too small at once: NodeUnschedulable comes first, then TaintToleration, then Fit
        nodes=(
            node("a", unschedulable=True, taints=(Taint("k"),), cpu=1),
            node("b", taints=(Taint("k"),), cpu=1),
            node("c", cpu=1),
        ),
        pod=pod(cpu=2),
        expected_filter=[CORDON, TAINT, FIT],
        expected_resolvable=[False, False, False],
    ),
)

TAINT_CASES = (
    Case(
        name="TaintToleration: value and effect must agree, PreferNoSchedule never forbids",
        nodes=(
            node("plain"),
            node("tolerated", taints=(Taint("gpu", "yes", Effect.NO_SCHEDULE),)),
            node("other-value", taints=(Taint("gpu", "no", Effect.NO_SCHEDULE),)),
            node("other-effect", taints=(Taint("gpu", "yes", Effect.NO_EXECUTE),)),
            node("prefer", taints=(Taint("gpu", "no", Effect.PREFER_NO_SCHEDULE),)),
        ),
        pod=pod(tolerations=(Toleration("gpu", "yes", effect=Effect.NO_SCHEDULE),)),
        expected_filter=[None, None, TAINT, TAINT, None],
        expected_resolvable=[None, None, False, False, None],
        # untolerated PreferNoSchedule taints of plain, tolerated, prefer: 0, 0, 1; 100 - 100*raw/1
        expected_scores={"TaintToleration": [100, 100, 0]},
    ),
    Case(
        name="TaintToleration: Exists without key tolerates everything",
        nodes=(
            node("a", taints=(Taint("x", "1"), Taint("y", "2", Effect.NO_EXECUTE))),
            node("b", taints=(Taint("z", "3", Effect.PREFER_NO_SCHEDULE),)),
        ),
        pod=pod(tolerations=(Toleration(exists=True),)),
        expected_filter=[None, None],
        expected_scores={"TaintToleration": [100, 100]},  # no untolerated taint anywhere: all 100
    ),
    Case(
        name="TaintToleration: every hard taint needs a toleration",
        nodes=(node("a", taints=(Taint("x"), Taint("y"))), node("b", taints=(Taint("x"),))),
        pod=pod(tolerations=(Toleration("x", exists=True),)),
        expected_filter=[TAINT, None],
    ),
)

LABELLED = (
    node("n0", labels={"cpus": "8", "tier": "a"}),
    node("n1", labels={"cpus": "16", "tier": "b"}),
    node("n2"),
    node("n3", labels={"cpus": "many", "tier": "c"}),
)


def required(*terms: NodeTerm) -> NodeAffinity:
    """Required node affinity."""
    return NodeAffinity(required=terms)


def affinity_case(name: str, passes: str, **options: Unpack[PodOptions]) -> Case:
    """A node affinity case over LABELLED; `passes` has one letter per node, y or n."""
    return Case(
        name=f"NodeAffinity: {name}",
        nodes=LABELLED,
        pod=pod(**options),
        expected_filter=[None if letter == "y" else AFFINITY for letter in passes],
        expected_resolvable=[None if letter == "y" else False for letter in passes],
    )


def one_term(labels: Selector | None = None, fields: Selector | None = None) -> NodeAffinity:
    """Required node affinity of one term."""
    return required(node_term(labels, fields))


NODE_AFFINITY_CASES = (
    affinity_case("In", "yynn", node_affinity=one_term(condition("tier", "In", "a", "b"))),
    # a node without the label meets NotIn
    affinity_case("NotIn", "nyyy", node_affinity=one_term(condition("tier", "NotIn", "a"))),
    affinity_case("Exists", "yyny", node_affinity=one_term(condition("tier", "Exists"))),
    affinity_case("DoesNotExist", "nnyn", node_affinity=one_term(condition("tier", "DoesNotExist"))),
    # 16 > 8; 8 is not above 8; a missing label and "many" are no numbers
    affinity_case("Gt", "nynn", node_affinity=one_term(condition("cpus", "Gt", "8"))),
    affinity_case("Lt", "ynnn", node_affinity=one_term(condition("cpus", "Lt", "16"))),
    affinity_case(
        "matchFields In", "nnyn", node_affinity=one_term(fields=condition("metadata.name", "In", "n2"))
    ),
    affinity_case(
        "matchFields NotIn", "yyny", node_affinity=one_term(fields=condition("metadata.name", "NotIn", "n2"))
    ),
    affinity_case(
        "labels and fields of a term must both hold",
        "nynn",
        node_affinity=one_term(
            condition("tier", "In", "a", "b"), condition("metadata.name", "In", "n1", "n3")
        ),
    ),
    affinity_case(
        "one of several terms is enough",
        "yynn",
        node_affinity=required(
            node_term(condition("tier", "In", "a")), node_term(condition("cpus", "Gt", "8"))
        ),
    ),
    affinity_case("a term without conditions selects nothing", "nnnn", node_affinity=required(NodeTerm())),
    affinity_case(
        "an empty term beside another adds nothing",
        "ynnn",
        node_affinity=required(NodeTerm(), node_term(condition("tier", "In", "a"))),
    ),
    affinity_case("nodeSelector", "nynn", node_selector={"tier": "b", "cpus": "16"}),
    affinity_case("nodeSelector on the implied hostname label", "nnyn", node_selector={HOSTNAME: "n2"}),
    # the selector alone allows n0, the term alone n0, n1, n3
    affinity_case(
        "nodeSelector and term must both hold",
        "ynnn",
        node_selector={"tier": "a"},
        node_affinity=one_term(condition("cpus", "Exists")),
    ),
    affinity_case(
        "nodeSelector and term contradict",
        "nnnn",
        node_selector={"tier": "a"},
        node_affinity=one_term(condition("tier", "In", "b")),
    ),
)

PORT_HOLDERS = (
    (pod("every-address", host_ports=(("", "TCP", 80),)), 0),
    (pod("one-address", host_ports=(("10.0.0.1", "TCP", 80),)), 1),
    (pod("udp", host_ports=(("", "UDP", 80),)), 2),
    (pod("other-address", host_ports=(("10.0.0.2", "TCP", 80), ("", "TCP", 443))), 3),
)
FOUR_NODES = (node("n0"), node("n1"), node("n2"), node("n3"))

PORT_CASES = (
    Case(
        name="NodePorts: every address collides with each address",
        nodes=FOUR_NODES,
        placed=PORT_HOLDERS,
        pod=pod(host_ports=(("", "TCP", 80),)),
        expected_filter=[PORTS, PORTS, None, PORTS],  # n2 holds the port for UDP only
        expected_resolvable=[True, True, None, True],
    ),
    Case(
        name="NodePorts: one address collides with itself and with every address",
        nodes=FOUR_NODES,
        placed=PORT_HOLDERS,
        pod=pod(host_ports=(("10.0.0.1", "TCP", 80),)),
        expected_filter=[PORTS, PORTS, None, None],
    ),
    Case(
        name="NodePorts: 0.0.0.0 is every address and no protocol is TCP",
        nodes=FOUR_NODES,
        placed=PORT_HOLDERS,
        pod=pod(host_ports=(("0.0.0.0", "", 443),)),
        expected_filter=[None, None, None, PORTS],
    ),
)


THING = "example.com/thing"
NODE_AMOUNTS: dict[str, Callable[[int], NodeOptions]] = {
    "cpu": lambda value: {"cpu": value},
    "memory": lambda value: {"memory": value},
    "ephemeral": lambda value: {"ephemeral": value},
    "network": lambda value: {"network": value},
    "disk": lambda value: {"disk": value},
    "extended": lambda value: {"extended": {THING: value}},
}
POD_AMOUNTS: dict[str, Callable[[int], PodOptions]] = {
    "cpu": lambda value: {"cpu": value},
    "memory": lambda value: {"memory": value},
    "ephemeral": lambda value: {"ephemeral": value},
    "network": lambda value: {"network": value},
    "disk": lambda value: {"disk": value},
    "extended": lambda value: {"extended": {THING: value}},
}


def fit_case(resource: str) -> Case:
    """600 of one resource asked for: just free on n0, used up on n1, more than all of n2.

    n0: 600 <= 1000 - 400. n1: 600 > 1000 - 500 but 600 <= 1000: eviction could help. n2: 600 > 500.
    """

    nodes = tuple(node(f"n{i}", **NODE_AMOUNTS[resource](value)) for i, value in enumerate((1000, 1000, 500)))
    amount = POD_AMOUNTS[resource]
    return Case(
        name=f"NodeResourcesFit: {resource}",
        nodes=nodes,
        placed=((pod("p0", **amount(400)), 0), (pod("p1", **amount(500)), 1)),
        pod=pod(**amount(600)),
        expected_filter=[None, FIT, FIT],
        expected_resolvable=[None, True, False],
    )


FIT_CASES = (
    *(fit_case(resource) for resource in POD_AMOUNTS),
    Case(
        name="NodeResourcesFit: a node without the extended resource has 0 of it",
        nodes=(node("a"), node("b", extended={THING: 1})),
        pod=pod(extended={THING: 1}),
        expected_filter=[FIT, None],
        expected_resolvable=[False, None],
    ),
    Case(
        name="NodeResourcesFit: pod slots",
        # n0: 1 + 1 <= 2. n1: 1 + 1 > 1. n2: 0 + 1 > 0; Go never calls the number of pods beyond help.
        nodes=(node("n0", pods=2), node("n1", pods=1), node("n2", pods=0)),
        placed=((pod("p0"), 0), (pod("p1"), 1)),
        pod=pod(),
        expected_filter=[None, FIT, FIT],
        expected_resolvable=[None, True, True],
    ),
    Case(
        name="NodeResourcesFit: one resource beyond help makes the node so",
        # cpu 2000 > 1000 in all; memory 600 > 1000 - 500 only for now
        nodes=(node("n0", cpu=1000, memory=1000),),
        placed=((pod("p0", memory=500), 0),),
        pod=pod(cpu=2000, memory=600),
        expected_filter=[FIT],
        expected_resolvable=[False],
    ),
    Case(
        name="NodeResourcesFit: a resource not asked for is not looked at, overcommitted or not",
        # n0 has 12000 of 10000 millicores promised; the pod asks for memory only
        nodes=(node("n0"),),
        placed=((pod("p0", cpu=12_000), 0),),
        pod=pod(memory=1000),
        expected_filter=[None],
        # shares with the pod: min(1, 1.2) = 1 and 0.1, std 0.45, S = 55; before: 1 and 0, std 0.5, S = 50;
        # 50 + (50 + 55 - 50)/2 = 50 + 27
        expected_scores={"NodeResourcesBalancedAllocation": [77]},
    ),
    Case(
        name="BalancedAllocation, 1.35: a share is never more than 1",
        nodes=(node("n0"),),
        placed=((pod("p0", cpu=12_000), 0),),
        version="1.35",
        pod=pod(memory=1000),
        expected_scores={"NodeResourcesBalancedAllocation": [55]},  # as above, with the pod: 1 and 0.1
    ),
)

GPU_NODES = (
    node("v100", gpus=2, gpu_model="V100"),
    node("t4", gpus=1, gpu_model="T4"),
    node("none"),
    node("a100", gpus=1, gpu_model="A100"),
)
GPU_USERS = ((pod("g0", gpu=(1, 600)), 0), (pod("g1", gpu=(1, 600)), 1))

GPU_CASES = (
    Case(
        name="Gpu: a share of one device",
        nodes=GPU_NODES,
        placed=GPU_USERS,
        pod=pod(gpu=(1, 500)),
        # v100 has 400 and 1000 left; t4 400; none has no device at all
        expected_gpu_left=[[400, 1000], [400], [], [1000]],
        expected_filter=[None, GPU, GPU, None],
        expected_resolvable=[None, True, False, None],
    ),
    Case(
        name="Gpu: only some models",
        nodes=GPU_NODES,
        placed=GPU_USERS,
        pod=pod(gpu=(1, 500), gpu_models=("V100", "P100")),
        expected_filter=[None, GPU, GPU, GPU],
        expected_resolvable=[None, False, False, False],
    ),
    Case(
        name="Gpu: whole devices",
        # v100 has only one untouched device; t4 and a100 have one device, two are asked for
        nodes=GPU_NODES,
        placed=((pod("g0", gpu=(1, 1)), 0),),
        pod=pod(gpu=(2, 1000)),
        expected_filter=[FIT, FIT, FIT, FIT],  # to kube whole devices are an extended resource
        expected_resolvable=[True, False, False, False],
    ),
    Case(
        name="Gpu: whole devices beyond help make a full node so",
        nodes=(node("n0", cpu=1000, gpus=1), node("n1", cpu=1000, gpus=2)),
        placed=((pod("a", cpu=1000), 0), (pod("b", cpu=1000), 1)),
        pod=pod(cpu=500, gpu=(2, 1000)),
        expected_filter=[FIT, FIT],
        expected_resolvable=[False, True],
    ),
    Case(
        name="Gpu: tightest device first",
        # 300: all equal, device 0 -> 700. 500: device 0 is tightest (700) -> 200. 400: device 1 -> 600
        # (1000 each, lowest index). 600: device 1 (600) -> 0. Left 200, 0, 1000.
        nodes=(node("n0", gpus=3),),
        placed=tuple((pod(f"g{i}", gpu=(1, milli)), 0) for i, milli in enumerate((300, 500, 400, 600))),
        pod=pod(gpu=(2, 200)),  # devices 0 and 2
        expected_gpu_left=[[200, 0, 1000]],
        expected_filter=[None],
    ),
    Case(
        name="Gpu: enough in sum is not enough on each device",
        nodes=(node("n0", gpus=3),),
        placed=tuple((pod(f"g{i}", gpu=(1, milli)), 0) for i, milli in enumerate((300, 500, 400, 600))),
        pod=pod(gpu=(2, 300)),  # device 2 alone has 300 left
        expected_filter=[GPU],
        expected_resolvable=[True],
    ),
    Case(
        name="Gpu: several devices, tightest ones",
        # 900 -> device 0 (100 left); then 2 x 300: device 0 has too little, so devices 1 and 2 -> 700 each;
        # then 2 x 700: devices 1 and 2 are tighter than device 3 -> 0 each
        nodes=(node("n0", gpus=4),),
        placed=((pod("g0", gpu=(1, 900)), 0), (pod("g1", gpu=(2, 300)), 0), (pod("g2", gpu=(2, 700)), 0)),
        pod=pod(gpu=(1, 1000)),
        expected_gpu_left=[[100, 0, 0, 1000]],
        expected_filter=[None],
    ),
)

SPREAD_NODES = (node("n0", zone="z1"), node("n1", zone="z1"), node("n2", zone="z2"), node("n3"))
SPREAD_PODS = ((runs("w0", "web"), 0), (runs("w1", "web"), 1), (runs("w2", "web"), 2))  # z1: 2, z2: 1


def spread_over(key: str = ZONE, max_skew: int = 1, min_domains: int = 1) -> SpreadConstraint:
    """A hard constraint on app=web."""
    return SpreadConstraint(app("web"), key, max_skew, min_domains)


SPREAD_CASES = (
    Case(
        name="PodTopologySpread: maxSkew 1, and a node without the key",
        nodes=SPREAD_NODES,
        placed=SPREAD_PODS,
        pod=runs("incoming", "web", spread=(spread_over(),)),
        # least is 1. z1: 2 + 1 - 1 = 2 > 1. z2: 1 + 1 - 1 = 1. n3 has no zone.
        expected_filter=[SPREAD, SPREAD, None, SPREAD],
        expected_resolvable=[True, True, None, False],
    ),
    Case(
        name="PodTopologySpread: maxSkew 2",
        nodes=SPREAD_NODES,
        placed=SPREAD_PODS,
        pod=runs("incoming", "web", spread=(spread_over(max_skew=2),)),
        expected_filter=[None, None, None, SPREAD],  # z1: 2 + 1 - 1 = 2
    ),
    Case(
        name="PodTopologySpread: a pod that does not match itself adds nothing",
        nodes=SPREAD_NODES,
        placed=SPREAD_PODS,
        pod=runs("incoming", "other", spread=(spread_over(),)),
        expected_filter=[None, None, None, SPREAD],  # z1: 2 + 0 - 1 = 1
    ),
    Case(
        name="PodTopologySpread: fewer domains than minDomains make the least 0",
        nodes=SPREAD_NODES,
        placed=SPREAD_PODS,
        pod=runs("incoming", "web", spread=(spread_over(max_skew=2, min_domains=3),)),
        # 2 domains < 3: z1: 2 + 1 - 0 = 3 > 2; z2: 1 + 1 - 0 = 2
        expected_filter=[SPREAD, SPREAD, None, SPREAD],
    ),
    Case(
        name="PodTopologySpread: as many domains as minDomains",
        nodes=SPREAD_NODES,
        placed=SPREAD_PODS,
        pod=runs("incoming", "web", spread=(spread_over(max_skew=2, min_domains=2),)),
        expected_filter=[None, None, None, SPREAD],  # least 1 as usual, z1: 2
    ),
    Case(
        name="PodTopologySpread: pods of other namespaces do not count",
        nodes=SPREAD_NODES,
        placed=tuple((runs(f"w{i}", "web", namespace="other"), i) for i in range(3)),
        pod=runs("incoming", "web", spread=(spread_over(),)),
        expected_filter=[None, None, None, SPREAD],  # 0 + 1 - 0 = 1 in both zones
    ),
    Case(
        name="PodTopologySpread: nodes outside the pod's node affinity do not count",
        nodes=(
            node("n0", zone="z1", labels={"pool": "x"}),
            node("n1", zone="z2", labels={"pool": "x"}),
            node("n2", zone="z3"),
        ),
        placed=((runs("w0", "web"), 0), (runs("w1", "web"), 0), (runs("w2", "web"), 1)),
        pod=runs("incoming", "web", node_selector={"pool": "x"}, spread=(spread_over(),)),
        # z1 2, z2 1; the empty z3 is no domain, so the least is 1. z1: 2 + 1 - 1 = 2 > 1; z2: 1
        expected_filter=[SPREAD, None, AFFINITY],
    ),
    Case(
        name="PodTopologySpread: tainted nodes do count",
        nodes=(node("n0", zone="z1"), node("n1", zone="z2", taints=(Taint("k"),))),
        placed=((runs("w0", "web"), 0),),
        pod=runs("incoming", "web", spread=(spread_over(),)),
        # z1 1, z2 0 although nobody may go there. z1: 1 + 1 - 0 = 2 > 1
        expected_filter=[SPREAD, TAINT],
        expected_resolvable=[True, False],
    ),
    Case(
        name="PodTopologySpread: by hostname",
        nodes=(node("n0"), node("n1"), node("n2")),
        placed=((runs("w0", "web"), 0), (runs("w1", "web"), 0), (runs("w2", "web"), 1)),
        pod=runs("incoming", "web", spread=(spread_over(HOSTNAME, 2),)),
        expected_filter=[SPREAD, None, None],  # least 0: 2 + 1 = 3 > 2; 1 + 1 = 2; 0 + 1 = 1
    ),
    Case(
        name="PodTopologySpread: a node lacking one key counts for no constraint",
        nodes=(node("n0", zone="z1"), node("n1")),
        placed=((runs("w0", "web"), 0),),
        pod=runs("incoming", "web", spread=(spread_over(HOSTNAME), spread_over(ZONE, 5))),
        # n1 has no zone, so it is no hostname domain: least is 1 (n0). n0: 1 + 1 - 1 = 1; n1: zone missing
        expected_filter=[None, SPREAD],
        expected_resolvable=[None, False],
    ),
    Case(
        name="PodTopologySpread: an empty selector counts no pod",
        nodes=SPREAD_NODES[:3],
        placed=SPREAD_PODS,
        pod=runs("incoming", "web", spread=(SpreadConstraint(Selector(), ZONE),)),
        expected_filter=[None, None, None],  # 0 + 1 - 0 = 1 everywhere
    ),
    Case(
        name="PodTopologySpread: soft constraints forbid nothing",
        nodes=SPREAD_NODES,
        placed=SPREAD_PODS,
        pod=runs("incoming", "web", spread=(SpreadConstraint(app("web"), ZONE, hard=False),)),
        expected_filter=[None, None, None, None],
    ),
)


def wants(*terms: PodTerm) -> PodAffinity:
    """Required pod (anti-)affinity."""
    return PodAffinity(required=terms)


DB_AND_FAST = wants(near("db"), PodTerm(match_labels({"disk": "fast"}), HOSTNAME))

POD_AFFINITY_CASES = (
    Case(
        name="InterPodAffinity: required affinity by zone",
        nodes=SPREAD_NODES,
        placed=((runs("db", "db"), 0),),
        pod=pod(affinity=wants(near("db"))),
        expected_filter=[None, None, PODS, PODS],  # z1 has the pod; n3 lacks the key
        expected_resolvable=[None, None, False, False],
    ),
    Case(
        name="InterPodAffinity: a pod counts only if it matches all terms",
        nodes=SPREAD_NODES[:3],
        placed=(
            (runs("db-slow", "db"), 0),
            (runs("db-fast", "db", labels={"disk": "fast"}), 1),
            (runs("db-2", "db"), 2),
            (pod("fast-2", labels={"disk": "fast"}), 2),
        ),
        pod=pod(affinity=DB_AND_FAST),
        # db-fast alone counts: zone z1, host n1. n0: zone yes, host no. n2: its two pods match a term each
        expected_filter=[PODS, None, PODS],
    ),
    Case(
        name="InterPodAffinity: the first pod of a series that likes itself",
        nodes=(node("n0", zone="z1"), node("n1")),
        pod=runs("incoming", "web", affinity=wants(near("web"))),
        expected_filter=[None, PODS],  # the key is demanded all the same
        expected_resolvable=[None, False],
    ),
    Case(
        name="InterPodAffinity: no exception once a pod matches somewhere",
        nodes=(node("n0", zone="z1"), node("n1", zone="z2")),
        placed=((runs("w0", "web"), 1),),
        pod=runs("incoming", "web", affinity=wants(near("web"))),
        expected_filter=[PODS, None],
    ),
    Case(
        name="InterPodAffinity: a match on a node without the key leaves the exception open",
        nodes=(node("n0", zone="z1"), node("n1")),
        placed=((runs("w0", "web"), 1),),
        pod=runs("incoming", "web", affinity=wants(near("web"))),
        expected_filter=[None, PODS],
    ),
    Case(
        name="InterPodAffinity: no exception for a pod that does not match itself",
        nodes=(node("n0", zone="z1"), node("n1", zone="z2")),
        pod=runs("incoming", "web", affinity=wants(near("db"))),
        expected_filter=[PODS, PODS],
        expected_resolvable=[False, False],
    ),
    Case(
        name="InterPodAffinity: pods of other namespaces do not match",
        nodes=SPREAD_NODES[:3],
        placed=((runs("db", "db", namespace="other"), 0),),
        pod=pod(affinity=wants(near("db"))),
        expected_filter=[PODS, PODS, PODS],
    ),
    Case(
        name="InterPodAffinity: unless the term names their namespace",
        nodes=SPREAD_NODES[:3],
        placed=((runs("db", "db", namespace="other"), 0),),
        pod=pod(affinity=wants(near("db", namespaces=("other",)))),
        expected_filter=[None, None, PODS],
    ),
    Case(
        name="InterPodAffinity: own anti-affinity",
        nodes=SPREAD_NODES,
        placed=((runs("w0", "web"), 0), (runs("w3", "web"), 3)),
        pod=pod(anti_affinity=wants(near("web"))),
        # z1 is taken; on n3 there is a web pod but no zone: no domain, no conflict
        expected_filter=[PODS, PODS, None, None],
        expected_resolvable=[True, True, None, None],
    ),
    Case(
        name="InterPodAffinity: one anti-affinity term of several is enough",
        nodes=SPREAD_NODES[:3],
        placed=((runs("w0", "web"), 0), (runs("d2", "db"), 2)),
        pod=pod(anti_affinity=wants(near("web", HOSTNAME), near("db", HOSTNAME))),
        expected_filter=[PODS, None, PODS],
    ),
    Case(
        name="InterPodAffinity: anti-affinity of the pods already there",
        nodes=SPREAD_NODES,
        placed=((pod("hermit", anti_affinity=wants(near("web"))), 0),),
        pod=runs("incoming", "web"),
        expected_filter=[PODS, PODS, None, None],
        expected_resolvable=[True, True, None, None],
    ),
    Case(
        name="InterPodAffinity: anti-affinity there reaches its own namespace only",
        nodes=SPREAD_NODES[:3],
        placed=((pod("hermit", namespace="other", anti_affinity=wants(near("web"))), 0),),
        pod=runs("incoming", "web"),
        expected_filter=[None, None, None],
    ),
)

FILTER_CASES = (
    *NAME_CASES,
    *TAINT_CASES,
    *NODE_AFFINITY_CASES,
    *PORT_CASES,
    *FIT_CASES,
    *GPU_CASES,
    *SPREAD_CASES,
    *POD_AFFINITY_CASES,
)
