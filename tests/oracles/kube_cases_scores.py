"""Golden cases of the scores, the order of nodes and the choice. The arithmetic stands beside each number."""

from __future__ import annotations

from proreus.model.node import HOSTNAME, ZONE, Effect, Taint, Toleration
from proreus.model.pod import NodeAffinity, NodeTerm, PodAffinity, SpreadConstraint
from proreus.model.resources import MIB
from tests.oracles.kube_builders import (
    Case,
    RotationCase,
    SamplingCase,
    app,
    condition,
    near,
    node,
    node_term,
    pod,
    runs,
)

TAINT, AFFINITY, FIT, SPREAD = "TaintToleration", "NodeAffinity", "NodeResourcesFit", "PodTopologySpread"
PODS, BALANCED, IMAGE = "InterPodAffinity", "NodeResourcesBalancedAllocation", "ImageLocality"

# a: 10000m and 10000Mi, of which 2500m and 2000Mi are taken; b: 4000m and 8000Mi, empty
TWO_NODES = (node("a"), node("b", cpu=4000, memory=8000))
TWO_NODES_LOAD = ((pod("load", cpu=2500, memory=2000), 0),)
# cpu a: (10000 - 3500)*100/10000 = 65, memory a: (10000 - 3000)*100/10000 = 70, (65 + 70)/2 = 67
# cpu b: (4000 - 1000)*100/4000 = 75, memory b: (8000 - 1000)*100/8000 = 87, (75 + 87)/2 = 81
TWO_NODES_LEAST = [67, 81]

RESOURCE_CASES = (
    Case(
        name="LeastAllocated and BalancedAllocation, 1.36",
        nodes=TWO_NODES,
        placed=TWO_NODES_LOAD,
        pod=pod(cpu=1000, memory=1000),
        expected_scores={
            TAINT: [100, 100],
            FIT: TWO_NODES_LEAST,
            # a with: 0.35, 0.30, std 0.025, int(97.5) = 97; without: 0.25, 0.20, 97; 50 + (50 + 0)/2 = 75
            # b with: 0.25, 0.125, std 0.0625, int(93.75) = 93; without: 0, 0, 100; 50 + (50 - 7)/2 = 50 + 21
            BALANCED: [75, 71],
            IMAGE: [0, 0],
        },
        expected_skipped=(AFFINITY, SPREAD, PODS),
        expected_totals=[442, 452],  # 3*100 + 67 + 75; 3*100 + 81 + 71
        expected_choice=1,
    ),
    Case(
        name="LeastAllocated and BalancedAllocation, 1.35",
        nodes=TWO_NODES,
        placed=TWO_NODES_LOAD,
        version="1.35",
        pod=pod(cpu=1000, memory=1000),
        expected_scores={FIT: TWO_NODES_LEAST, BALANCED: [97, 93]},  # S with the pod, as above
        expected_totals=[464, 474],  # 300 + 67 + 97; 300 + 81 + 93
    ),
    Case(
        name="MostAllocated",
        nodes=TWO_NODES,
        placed=TWO_NODES_LOAD,
        scoring_strategy="MostAllocated",
        pod=pod(cpu=1000, memory=1000),
        # a: 3500*100/10000 = 35, 3000*100/10000 = 30, 65/2 = 32
        # b: 1000*100/4000 = 25, 1000*100/8000 = 12, 37/2 = 18
        expected_scores={FIT: [32, 18]},
    ),
    Case(
        name="LeastAllocated: unstated requests are 100m and 200Mi, of pods on the node and of the pod",
        nodes=(node("a", cpu=1000, memory=2000), node("b", cpu=1000, memory=2000)),
        placed=((pod("quiet"), 0),),
        pod=pod(),
        # a: 200m of 1000m: 80, 400Mi of 2000Mi: 80. b: 100m: 90, 200Mi: 90
        expected_scores={FIT: [80, 90]},
        expected_skipped=(BALANCED,),  # asks for neither cpu nor memory
        expected_totals=[380, 390],  # 300 + 80; 300 + 90
    ),
    Case(
        name="LeastAllocated: only memory is unstated; BalancedAllocation takes it as 0",
        nodes=(node("a", cpu=1000, memory=2000),),
        pod=pod(cpu=500),
        # cpu (1000 - 500)*100/1000 = 50, memory (2000 - 200)*100/2000 = 90, 140/2 = 70
        # with: 0.5, 0, std 0.25, 75; without: 100; 50 + (50 - 25)/2 = 50 + 12
        expected_scores={FIT: [70], BALANCED: [62]},
    ),
    Case(
        name="LeastAllocated: the pod's own scoring amounts go first",
        nodes=(node("a", cpu=1000, memory=2000),),
        placed=((pod("two-containers", cpu=100, scoring=(200, 400 * MIB)), 0),),
        pod=pod(cpu=100, scoring=(100, 200 * MIB)),
        # cpu 300 of 1000: 70, memory 600Mi of 2000Mi: 70
        # BalancedAllocation by the real requests: with 0.2, 0, std 0.1, 90; without 0.1, 0, std 0.05, 95;
        # 50 + (50 - 5)/2 = 50 + 22
        expected_scores={FIT: [70], BALANCED: [72]},
    ),
    Case(
        name="LeastAllocated: more counted than there is gives 0 for that resource",
        nodes=(node("a", cpu=1000, memory=4000),),
        placed=tuple((pod(f"quiet{i}"), 0) for i in range(10)),
        pod=pod(),
        # cpu 11*100 = 1100 > 1000: 0; memory 11*200 = 2200: (4000 - 2200)*100/4000 = 45; 45/2 = 22
        expected_scores={FIT: [22]},
    ),
    Case(
        name="a resource that the node does not have is left out",
        nodes=(node("a", cpu=1000, memory=0), node("b", cpu=0, memory=0)),
        pod=pod(scoring=(500, 200 * MIB)),
        expected_scores={FIT: [50, 0]},  # a: cpu alone, (1000 - 500)*100/1000; b: nothing to score
    ),
    Case(
        name="BalancedAllocation: one resource is always balanced",
        nodes=(node("a", cpu=1000, memory=0),),
        pod=pod(cpu=500),
        expected_scores={FIT: [50], BALANCED: [75]},  # S = 100 before and after: 50 + 50/2
    ),
    Case(
        name="BalancedAllocation, 1.36: a pod that evens a node out",
        nodes=(node("a"), node("b")),
        placed=((pod("cpu-heavy", cpu=5000), 0),),
        pod=pod(memory=5000),
        expected_scores={
            # a with: 0.5, 0.5, 100; without: 0.5, 0, 75: 50 + (50 + 25)/2 = 50 + 37
            # b with: 0, 0.5, 75; without: 100: 50 + (50 - 25)/2 = 50 + 12
            BALANCED: [87, 62],
            # a: cpu 5000 + 100: 49, memory 200Mi + 5000Mi: 48, 97/2 = 48
            # b: cpu 100: 99, memory 5000Mi: 50, 149/2 = 74
            FIT: [48, 74],
        },
    ),
    Case(
        name="BalancedAllocation, 1.35: a pod that evens a node out",
        nodes=(node("a"), node("b")),
        placed=((pod("cpu-heavy", cpu=5000), 0),),
        version="1.35",
        pod=pod(memory=5000),
        expected_scores={BALANCED: [100, 75]},
    ),
)

PREFER = Effect.PREFER_NO_SCHEDULE

TAINT_SCORE_CASES = (
    Case(
        name="TaintToleration score: untolerated PreferNoSchedule taints",
        nodes=(
            node("n0", taints=(Taint("free", "", PREFER),)),
            node("n1", taints=(Taint("k1", "", PREFER), Taint("free", "", PREFER))),
            node("n2", taints=(Taint("k1", "", PREFER), Taint("k2", "", PREFER))),
            node("n3", taints=(Taint("k1", "", PREFER), Taint("k2", "", PREFER), Taint("k3", "", PREFER))),
        ),
        # `free` is tolerated for every effect; the toleration of k1 is for NoSchedule and does not count
        pod=pod(
            tolerations=(
                Toleration("free", exists=True),
                Toleration("k1", exists=True, effect=Effect.NO_SCHEDULE),
            )
        ),
        # raw 0, 1, 2, 3: 100 - 0; 100 - 100*1/3 = 100 - 33; 100 - 200/3 = 100 - 66; 100 - 100
        expected_scores={TAINT: [100, 67, 34, 0]},
    ),
)

LABELLED = (
    node("n0", labels={"cpus": "8", "tier": "a"}),
    node("n1", labels={"cpus": "16", "tier": "b"}),
    node("n2"),
    node("n3", labels={"cpus": "many", "tier": "c"}),
)

AFFINITY_SCORE_CASES = (
    Case(
        name="NodeAffinity score: weights of the preferred terms that hold",
        nodes=LABELLED,
        pod=pod(
            node_affinity=NodeAffinity(
                preferred=(
                    (10, node_term(condition("tier", "In", "a"))),
                    (30, node_term(condition("cpus", "Exists"))),
                    (5, node_term(fields=condition("metadata.name", "In", "n2"))),
                    (50, NodeTerm()),  # no condition: holds nowhere
                )
            )
        ),
        # raw 40, 30, 5, 30: 100; 100*30/40 = 75; 100*5/40 = 12; 75
        expected_scores={AFFINITY: [100, 75, 12, 75]},
        # TaintToleration 3*100, NodeAffinity twice, LeastAllocated of 100m and 200Mi: (99 + 98)/2 = 98
        expected_totals=[598, 548, 422, 548],
    ),
    Case(
        name="NodeAffinity score: nothing preferred is found",
        nodes=LABELLED,
        pod=pod(node_affinity=NodeAffinity(preferred=((10, node_term(condition("tier", "In", "z"))),))),
        expected_scores={AFFINITY: [0, 0, 0, 0]},
    ),
    Case(
        name="NodeAffinity score: skipped with required terms alone",
        nodes=LABELLED,
        pod=pod(node_affinity=NodeAffinity(required=(node_term(condition("tier", "Exists")),))),
        expected_skipped=(AFFINITY,),
    ),
)

ZONED = (node("n0", zone="z1"), node("n1", zone="z1"), node("n2", zone="z2"), node("n3"))
# by node 2, 1, 1, 0; by zone z1 3, z2 1
WEBS = ((runs("w0", "web"), 0), (runs("w1", "web"), 0), (runs("w2", "web"), 1), (runs("w3", "web"), 2))


def soft(key: str, max_skew: int = 1, system_default: bool = False) -> SpreadConstraint:
    """A soft constraint on app=web."""
    return SpreadConstraint(app("web"), key, max_skew, hard=False, system_default=system_default)


SPREAD_SCORE_CASES = (
    Case(
        name="PodTopologySpread score: zone",
        nodes=ZONED[:3],
        placed=WEBS,
        pod=runs("incoming", "web", spread=(soft(ZONE),)),
        # ln(2 + 2) = 1.3863. z1: 3*1.3863 = 4.16 -> 4, z2: 1.39 -> 1; max 4, min 1
        # n0, n1: 100*(4 + 1 - 4)/4 = 25; n2: 100*(4 + 1 - 1)/4 = 100
        expected_scores={SPREAD: [25, 25, 100]},
    ),
    Case(
        name="PodTopologySpread score: hostname",
        nodes=ZONED[:3],
        placed=WEBS,
        pod=runs("incoming", "web", spread=(soft(HOSTNAME),)),
        # ln(3 + 2) = 1.6094. 2*1.6094 = 3.22 -> 3; 1.61 -> 2; 2; max 3, min 2
        # n0: 100*(5 - 3)/3 = 66; n1, n2: 100*(5 - 2)/3 = 100
        expected_scores={SPREAD: [66, 100, 100]},
    ),
    Case(
        name="PodTopologySpread score: system defaults, a node without zone takes part",
        nodes=ZONED,
        placed=WEBS,
        pod=runs("incoming", "web", spread=(soft(HOSTNAME, 3, True), soft(ZONE, 5, True))),
        # hostname: 4 nodes, ln 6 = 1.7918, + 2; zone: values z1, z2 and none at all, ln 5 = 1.6094, + 4
        # n0: 2*1.7918 + 2 + 3*1.6094 + 4 = 14.41 -> 14; n1: 1.7918 + 2 + 4.8283 + 4 = 12.62 -> 13
        # n2: 1.7918 + 2 + 1.6094 + 4 = 9.40 -> 9; n3: 0 + 2, nothing for the zone -> 2; max 14, min 2
        # 100*(16 - 14)/14 = 14; 100*3/14 = 21; 100*7/14 = 50; 100*14/14 = 100
        expected_scores={SPREAD: [14, 21, 50, 100]},
    ),
    Case(
        name="PodTopologySpread score: own constraints, a node without zone gets 0",
        nodes=ZONED,
        placed=WEBS,
        pod=runs("incoming", "web", spread=(soft(HOSTNAME, 3), soft(ZONE, 5))),
        # n3 is ignored: hostname 3 nodes, ln 5 = 1.6094; zone 2 values, ln 4 = 1.3863
        # n0: 3.2189 + 2 + 4.1589 + 4 = 13.38 -> 13; n1: 1.6094 + 2 + 4.1589 + 4 = 11.77 -> 12
        # n2: 1.6094 + 2 + 1.3863 + 4 = 8.996 -> 9; max 13, min 9
        # 100*(22 - 13)/13 = 69; 100*10/13 = 76; 100*13/13 = 100
        expected_scores={SPREAD: [69, 76, 100, 0]},
    ),
    Case(
        name="PodTopologySpread score: no matching pod anywhere, maxSkew 1",
        nodes=ZONED[:3],
        pod=runs("incoming", "web", spread=(soft(ZONE),)),
        expected_scores={SPREAD: [100, 100, 100]},  # max 0
    ),
    Case(
        name="PodTopologySpread score: no matching pod anywhere, maxSkew 3",
        nodes=ZONED[:3],
        pod=runs("incoming", "web", spread=(soft(ZONE, 3),)),
        expected_scores={SPREAD: [100, 100, 100]},  # raw 2 everywhere: 100*(2 + 2 - 2)/2
    ),
    Case(
        name="PodTopologySpread score: pods on infeasible nodes count",
        nodes=(node("n0", zone="z1"), node("n1", zone="z1", unschedulable=True), node("n2", zone="z2")),
        placed=((runs("w0", "web"), 1), (runs("w1", "web"), 1), (runs("w2", "web"), 2)),
        pod=runs("incoming", "web", spread=(soft(ZONE),)),
        # feasible n0, n2; ln 4. z1: 2*1.3863 = 2.77 -> 3, z2: 1; 100*(4 - 3)/3 = 33; 100*(4 - 1)/3 = 100
        expected_scores={SPREAD: [33, 100]},
    ),
    Case(
        name="PodTopologySpread score: pods on nodes outside the node affinity do not count",
        nodes=(
            node("n0", zone="z1", labels={"pool": "x"}),
            node("n1", zone="z1"),
            node("n2", zone="z2", labels={"pool": "x"}),
        ),
        placed=((runs("w0", "web"), 1), (runs("w1", "web"), 1), (runs("w2", "web"), 2)),
        pod=runs("incoming", "web", node_selector={"pool": "x"}, spread=(soft(ZONE),)),
        # z1: 0, z2: 1.39 -> 1; n0: 100*(1 + 0 - 0)/1; n2: 100*(1 + 0 - 1)/1
        expected_scores={SPREAD: [100, 0]},
    ),
    Case(
        name="PodTopologySpread score: other namespaces do not count",
        nodes=ZONED[:3],
        placed=((runs("w0", "web", namespace="other"), 0), (runs("w1", "web"), 2)),
        pod=runs("incoming", "web", spread=(soft(ZONE),)),
        expected_scores={SPREAD: [100, 100, 0]},  # z1 0, z2 1: 100*(1 - 0)/1, 100*(1 - 1)/1
    ),
    Case(
        name="PodTopologySpread score: no node has the key",
        nodes=(node("n0"), node("n1")),
        pod=runs("incoming", "web", spread=(soft(ZONE),)),
        expected_scores={SPREAD: [0, 0]},
    ),
    Case(
        name="PodTopologySpread score: skipped with hard constraints alone",
        nodes=ZONED[:3],
        pod=runs("incoming", "web", spread=(SpreadConstraint(app("web"), ZONE),)),
        expected_skipped=(SPREAD,),
    ),
)


def prefers(weight: int, application: str, key: str = HOSTNAME) -> PodAffinity:
    """One preferred term."""
    return PodAffinity(preferred=((weight, near(application, key)),))


POD_AFFINITY_SCORE_CASES = (
    Case(
        name="InterPodAffinity score: the pod's own preferences",
        nodes=ZONED[:3],
        placed=((runs("d0", "db"), 0), (runs("d1", "db"), 2), (runs("d2", "db"), 2), (runs("n", "noisy"), 1)),
        pod=pod(affinity=prefers(10, "db", ZONE), anti_affinity=prefers(4, "noisy")),
        # z1 +10, z2 +20, host n1 -4: raw 10, 6, 20; int(100*(10 - 6)/14) = 28; 0; 100
        expected_scores={PODS: [28, 0, 100]},
    ),
    Case(
        name="InterPodAffinity score: the preferences of the pods already there",
        nodes=ZONED[:3],
        placed=(
            (pod("fan", affinity=prefers(5, "web")), 0),
            (pod("foe", anti_affinity=prefers(3, "web")), 1),
        ),
        pod=runs("incoming", "web"),
        # raw 5, -3, 0: 100*8/8; 0; int(100*3/8) = 37
        expected_scores={PODS: [100, 0, 37]},
    ),
    Case(
        name="InterPodAffinity score: required affinity of the pods already there counts 1 each",
        nodes=ZONED,
        placed=tuple(
            (pod(f"p{i}", affinity=PodAffinity((near("web"),))), at) for i, at in enumerate((0, 0, 2))
        ),
        pod=runs("incoming", "web"),
        # z1 2, z2 1, n3 has no zone 0: raw 2, 2, 1, 0
        expected_scores={PODS: [100, 100, 50, 0]},
    ),
    Case(
        name="InterPodAffinity score: floating point, divided before multiplied",
        nodes=ZONED[:3],
        placed=((runs("a", "a"), 0), (runs("b", "b"), 1)),
        pod=pod(affinity=PodAffinity(preferred=((29, near("a", HOSTNAME)), (100, near("b", HOSTNAME))))),
        # raw 29, 100, 0: 29/100 = 0.28999999999999998, times 100 = 28.999999999999996 -> 28
        expected_scores={PODS: [28, 100, 0]},
    ),
    Case(
        name="InterPodAffinity score: weights that cancel give 0 but are not skipped",
        nodes=ZONED[:2],
        placed=((runs("a", "a"), 0),),
        pod=pod(affinity=prefers(5, "a"), anti_affinity=prefers(5, "a")),
        expected_scores={PODS: [0, 0]},
    ),
    Case(
        name="InterPodAffinity score: equal everywhere gives 0",
        nodes=ZONED[:2],
        placed=((runs("a", "a"), 0),),
        pod=pod(affinity=prefers(5, "a", ZONE)),
        expected_scores={PODS: [0, 0]},  # raw 5, 5
    ),
    Case(
        name="InterPodAffinity score: skipped when no term matches",
        nodes=ZONED[:2],
        placed=((runs("a", "a"), 0),),
        pod=pod(affinity=prefers(5, "b")),
        expected_skipped=(PODS,),
    ),
    Case(
        name="InterPodAffinity score: required anti-affinity and the pod's own required affinity add nothing",
        nodes=ZONED[:3],
        placed=((runs("d", "db"), 0), (pod("hermit", anti_affinity=PodAffinity((near("x"),))), 1)),
        pod=pod(affinity=PodAffinity((near("db"),))),
        expected_skipped=(PODS,),
    ),
)

# "app" (400 MiB) on 2 of 4 nodes: 200 MiB; "tiny" (40 MiB) on 1: 10 MiB; "huge" (8000 MiB) on 2: 4000 MiB
IMAGE_NODES = (
    node("n0", images={"app:v1": 400, "huge:1": 8000}),
    node("n1", images={"app:v1": 400, "tiny:1": 40}),
    node("n2", images={"huge:1": 8000}),
    node("n3"),
)

IMAGE_CASES = (
    Case(
        name="ImageLocality: size times share of nodes",
        nodes=IMAGE_NODES,
        pod=pod(images=("app:v1",)),
        expected_scores={IMAGE: [18, 18, 0, 0]},  # 100*(200 - 23)/(1000 - 23) = 17700/977 = 18
    ),
    Case(
        name="ImageLocality: less than 23 MiB is nothing",
        nodes=IMAGE_NODES,
        pod=pod(images=("tiny:1",)),
        expected_scores={IMAGE: [0, 0, 0, 0]},
    ),
    Case(
        name="ImageLocality: more than 1000 MiB is all",
        nodes=IMAGE_NODES,
        pod=pod(images=("huge:1",)),
        expected_scores={IMAGE: [100, 0, 100, 0]},
    ),
    Case(
        name="ImageLocality: the upper bound is per image",
        nodes=IMAGE_NODES,
        pod=pod(images=("app:v1", "huge:1", "unknown:1")),
        # n0: 4200 > 3000 -> 100; n1: 100*(200 - 23)/(3000 - 23) = 17700/2977 = 5; n2: 4000 -> 100
        expected_scores={IMAGE: [100, 5, 100, 0]},
    ),
    Case(
        name="ImageLocality: no tag means latest; a port is no tag",
        nodes=(node("n0", images={"app:latest": 1000}), node("n1", images={"host:5000/app:latest": 1000})),
        pod=pod(images=("app", "host:5000/app")),
        # each 1000*1/2 = 500 MiB on its node: 100*(500 - 23)/(2000 - 23) = 47700/1977 = 24
        expected_scores={IMAGE: [24, 24]},
    ),
    Case(
        name="ImageLocality: a share of nodes that is no round number",
        nodes=(node("n0", images={"app:1": 100}), node("n1"), node("n2")),
        pod=pod(images=("app:1",)),
        # int(104857600/3) = 34952533 bytes: 100*(34952533 - 24117248)/(1048576000 - 24117248) = 1.06 -> 1
        expected_scores={IMAGE: [1, 0, 0]},
    ),
    Case(
        name="ImageLocality: where nodes differ about the size the first one is right",
        nodes=(node("n0", images={"app:1": 500}), node("n1", images={"app:1": 100})),
        pod=pod(images=("app:1",)),
        # 500*2/2 = 500 MiB for both: 100*(500 - 23)/977 = 47700/977 = 48
        expected_scores={IMAGE: [48, 48]},
    ),
)

THREE_EQUAL = (node("n0"), node("n1"), node("n2"))


def tie_case(version: str, draws: tuple[int, ...], expected: int) -> Case:
    """Three equal nodes; draws answer random_below(2), then random_below(3)."""
    return Case(
        name=f"choice: tie of three, {version}, draws {draws}",
        nodes=THREE_EQUAL,
        version=version,
        pod=pod(cpu=100),
        draws=draws,
        expected_choice=expected,
    )


CHOICE_CASES = (
    tie_case("1.35", (), 0),
    tie_case("1.36", (), 0),
    Case(
        name="choice: the root of the heap wins, not the first of equals",
        # Places 1 to 4 of the heap hold 2, 2, 4, 4 cores: the fourth rises over the second, then to the top
        # before the third may.
        nodes=(node("n0", cpu=2000), node("n1", cpu=2000), node("n2", cpu=4000), node("n3", cpu=4000)),
        pod=pod(cpu=100, memory=100),
        expected_choice=3,
    ),
    Case(
        name="choice: pod-level requests do not count in the fit of the pod that comes",
        nodes=(node("n0"),),
        pod=pod(cpu=5000, memory=5000, scoring=(5000, 5000 * MIB), scoring_incoming=(100, 200 * MIB)),
        placed=((pod("there", scoring=(1000, 1000 * MIB), scoring_incoming=(100, 200 * MIB)), 0),),
        expected_scores={"NodeResourcesFit": [88]},  # (89 + 88) / 2: 1100 of 10000 and 1200 of 10000
    ),
    tie_case("1.34", (1, 1), 0),
    tie_case("1.34", (0, 1), 1),  # the second replaces the first
    tie_case("1.34", (1, 0), 2),
    tie_case("1.34", (0, 0), 2),  # the second replaces the first, the third the second
    Case(
        name="choice: only the best nodes are drawn from, 1.34",
        nodes=THREE_EQUAL,
        placed=((pod("load", cpu=5000, memory=5000), 0),),
        version="1.34",
        pod=pod(cpu=100, memory=100),
        draws=(0,),  # random_below(2) for n2 against n1; n0 is worse and draws nothing
        expected_choice=2,
    ),
    Case(
        name="choice: one feasible node is taken unscored, and nothing is drawn",
        nodes=(node("n0", unschedulable=True), node("n1")),
        version="1.34",
        pod=pod(cpu=100),
        expected_choice=1,
    ),
    Case(
        name="choice: no feasible node",
        nodes=(node("n0", unschedulable=True),),
        pod=pod(),
        expected_choice=None,
    ),
    Case(
        name="choice: the first of the best in node order, not in index order",
        # visited n0, n2, n1; n0 is loaded, n2 and n1 are equal
        nodes=(node("n0", zone="z1"), node("n1", zone="z1"), node("n2", zone="z2")),
        placed=((pod("load", cpu=5000, memory=5000), 0),),
        pod=pod(cpu=100, memory=100),
        expected_order=[0, 2, 1],
        expected_choice=2,
    ),
)

ORDER_CASES = (
    Case(
        name="node order: round robin over zones, a node without zone is a zone of its own",
        nodes=(
            node("n0", zone="z1"),
            node("n1", zone="z1"),
            node("n2", zone="z1"),
            node("n3", zone="z2"),
            node("n4"),
            node("n5", zone="z2"),
        ),
        pod=pod(),
        expected_order=[0, 3, 4, 1, 5, 2],  # z1 z2 none; z1 z2; z1
    ),
    Case(
        name="node order: equal zone names of two regions are two zones",
        nodes=(
            node("n0", region="r1", zone="z"),
            node("n1", region="r1", zone="z"),
            node("n2", region="r2", zone="z"),
        ),
        pod=pod(),
        expected_order=[0, 2, 1],
    ),
    Case(
        name="node order: without zones as given",
        nodes=(node("c"), node("a"), node("b")),
        pod=pod(),
        expected_order=[0, 1, 2],
    ),
)

SCORE_CASES = (
    *RESOURCE_CASES,
    *TAINT_SCORE_CASES,
    *AFFINITY_SCORE_CASES,
    *SPREAD_SCORE_CASES,
    *POD_AFFINITY_SCORE_CASES,
    *IMAGE_CASES,
    *CHOICE_CASES,
    *ORDER_CASES,
)

SAMPLING_CASES = (
    SamplingCase(50, 0, 50),  # below 100 all
    SamplingCase(99, 0, 99),
    SamplingCase(100, 0, 100),  # 50 - 100/125 = 50 %: 50, but at least 100
    SamplingCase(500, 0, 230),  # 50 - 4 = 46 %
    SamplingCase(1000, 0, 420),  # 50 - 8 = 42 %
    SamplingCase(5000, 0, 500),  # 50 - 40 = 10 %
    SamplingCase(10_000, 0, 500),  # 50 - 80 < 5: 5 %
    SamplingCase(1000, 30, 300),
    SamplingCase(1000, 5, 100),  # 50, but at least 100
    SamplingCase(1000, 100, 1000),
)

ROTATION_CASES = (
    RotationCase(
        name="120 free nodes: 100 are enough, the next search starts behind them",
        nodes=tuple(node(f"n{i}") for i in range(120)),  # 50 - 0 = 50 %: 60, but at least 100
        pod=pod(),
        # starts at 0, 100, (100 + 100) mod 120 = 80
        expected=(
            list(range(100)),
            [*range(100, 120), *range(80)],
            [*range(80, 120), *range(60)],
        ),
    ),
    RotationCase(
        name="120 nodes, the first 10 cordoned: failed nodes advance the start too",
        nodes=tuple(node(f"n{i}", unschedulable=i < 10) for i in range(120)),
        pod=pod(),
        # 110 visited; from 110: 10 feasible, 10 failed, 90 feasible, 110 visited; from 220 mod 120 = 100
        expected=(
            list(range(10, 110)),
            [*range(110, 120), *range(10, 100)],
            [*range(100, 120), *range(10, 90)],
        ),
    ),
    RotationCase(
        name="refused nodes behind the last one wanted are looked at as well",
        nodes=tuple(node(f"n{i}", unschedulable=100 <= i < 105) for i in range(120)),
        pod=pod(),
        # 100 found; five refused; the feasible one after them ends the search: from 105
        expected=(list(range(100)), [*range(105, 120), *range(85)]),
    ),
    RotationCase(
        name="where the pod names its nodes, only they are looked at",
        nodes=tuple(node(f"n{i}", unschedulable=i == 2) for i in range(4)),
        pod=pod(
            node_affinity=NodeAffinity(
                required=(node_term(fields=condition("metadata.name", "In", "n1", "n2", "elsewhere")),)
            )
        ),
        # two of them exist and one is cordoned: the start moves by two, and is odd or even to a list of two
        expected=([1], [1], [1]),
    ),
    RotationCase(
        name="a small cluster is searched whole and starts at the same node again",
        nodes=(node("n0"), node("n1"), node("n2")),
        pod=pod(),
        expected=([0, 1, 2], [0, 1, 2]),
    ),
)
