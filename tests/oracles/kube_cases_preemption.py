"""Golden cases of preemption: whom a node would lose, and which node is chosen.

Unless a case says otherwise nodes have 10000m, pods ask for cpu only, and the incoming pod has priority 10.
"""

from __future__ import annotations

from proreus.model.node import HOSTNAME, ZONE, Taint
from proreus.model.pod import Pod, PodAffinity, SpreadConstraint
from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget
from tests.oracles.kube_builders import Case, app, near, node, pod, runs

FIT, PORTS, GPU, SPREAD, PODS = (
    "NodeResourcesFit",
    "NodePorts",
    "Gpu",
    "PodTopologySpread",
    "InterPodAffinity",
)
ONE = (node("n0"),)
TWO = (node("n0"), node("n1"))
LOWEST = -(2**31)


def worker(name: str, priority: int, cpu: int, start: float = 0.0) -> Pod:
    """A pod that runs."""
    return pod(name, priority=priority, cpu=cpu, arrival=start)


def urgent(cpu: int) -> Pod:
    """The pod that preempts."""
    return pod(priority=10, cpu=cpu)


VICTIM_CASES = (
    Case(
        name="victims: the more important pod is reprieved",
        nodes=ONE,
        placed=((worker("low", 1, 6000), 0), (worker("less-low", 2, 3000), 0)),
        pod=urgent(4000),
        expected_filter=[FIT],  # 9000 + 4000
        # put back less-low: 3000 + 4000 fits; low: 9000 + 4000 does not
        expected_victims={0: (["low"], 0)},
        expected_preempt=(0, ["low"]),
    ),
    Case(
        name="victims: reprieve goes on after a pod that did not fit",
        nodes=ONE,
        placed=((worker("big", 3, 7000), 0), (worker("small", 1, 3000), 0)),
        pod=urgent(5000),
        # big: 7000 + 5000 does not fit; small: 3000 + 5000 does, though it is less important
        expected_victims={0: (["big"], 0)},
    ),
    Case(
        name="victims: of equal priority the pod that started later goes",
        nodes=ONE,
        placed=((worker("late", 1, 4000, 5.0), 0), (worker("early", 1, 4000, 3.0), 0)),
        pod=urgent(5000),
        expected_victims={0: (["late"], 0)},  # early + urgent = 9000; late would make 13000
    ),
    Case(
        name="victims: of equal priority and start the pod placed later goes",
        nodes=ONE,
        placed=((worker("z-first", 1, 4000), 0), (worker("a-second", 1, 4000), 0)),
        pod=urgent(5000),
        expected_victims={0: (["a-second"], 0)},
    ),
    Case(
        name="victims: equal priority is safe",
        nodes=ONE,
        placed=((worker("peer", 10, 8000), 0),),
        pod=urgent(4000),
        expected_filter=[FIT],
        expected_resolvable=[True],
        expected_victims={0: None},
        expected_preempt=None,
    ),
    Case(
        name="victims: all lower pods together are not enough",
        nodes=ONE,
        placed=((worker("peer", 11, 7000), 0), (worker("low", 1, 2000), 0)),
        pod=urgent(4000),
        expected_victims={0: None},  # 7000 + 4000 > 10000 without low
        expected_preempt=None,
    ),
    Case(
        name="victims: a pod that fits as it is needs none",
        nodes=ONE,
        placed=((worker("low", 1, 2000), 0),),
        pod=urgent(4000),
        expected_filter=[None],
        expected_victims={0: None},
        expected_preempt=None,
    ),
    Case(
        name="victims: several, by importance",
        nodes=ONE,
        placed=((worker("p1", 1, 3000), 0), (worker("p3", 3, 3000), 0), (worker("p2", 2, 3000), 0)),
        pod=urgent(9000),
        expected_victims={0: (["p3", "p2", "p1"], 0)},
    ),
    Case(
        name="victims: pod slots",
        nodes=(node("n0", pods=2),),
        placed=((worker("p1", 1, 0), 0), (worker("p2", 2, 0), 0)),
        pod=urgent(0),
        expected_victims={0: (["p1"], 0)},
    ),
    Case(
        name="victims: a host port",
        nodes=ONE,
        placed=(
            (worker("bystander", 1, 100), 0),
            (pod("holder", priority=2, host_ports=(("", "TCP", 80),)), 0),
        ),
        pod=pod(priority=10, host_ports=(("", "TCP", 80),)),
        expected_filter=[PORTS],
        expected_victims={0: (["holder"], 0)},
    ),
    Case(
        name="victims: anti-affinity of a pod there",
        nodes=ONE,
        placed=(
            (pod("hermit", priority=5, anti_affinity=PodAffinity((near("web", HOSTNAME),))), 0),
            (worker("bystander", 1, 100), 0),
        ),
        pod=runs("incoming", "web", priority=10),
        expected_filter=[PODS],
        expected_victims={0: (["hermit"], 0)},
    ),
    Case(
        name="victims: topology spread",
        # z1 2, z2 0: n0: 2 + 1 - 0 > 1; both out: 1; older back: 1 + 1 - 0 > 1, so it goes; younger too
        nodes=(node("n0", zone="z1"), node("n1", zone="z2", taints=(Taint("k"),))),
        placed=((runs("older", "web", arrival=1.0), 0), (runs("younger", "web", arrival=2.0), 0)),
        pod=runs("incoming", "web", priority=10, spread=(SpreadConstraint(app("web"), ZONE),)),
        expected_filter=[SPREAD, "TaintToleration"],
        expected_victims={0: (["older", "younger"], 0)},
        expected_preempt=(0, ["older", "younger"]),
    ),
    Case(
        name="victims: affinity to a pod that would have to go is no help",
        nodes=ONE,
        placed=((runs("db", "db", priority=1, cpu=8000), 0),),
        pod=pod(priority=10, cpu=5000, affinity=PodAffinity((near("db", HOSTNAME),))),
        expected_filter=[FIT],  # as it is, only cpu lacks; without db the affinity fails
        expected_resolvable=[True],
        expected_victims={0: None},
        expected_preempt=None,
    ),
    Case(
        name="victims: a whole GPU",
        nodes=(node("n0", gpus=2),),
        placed=((pod("g1", priority=1, gpu=(1, 1000)), 0), (pod("g2", priority=2, gpu=(1, 1000)), 0)),
        pod=pod(priority=10, gpu=(1, 1000)),
        expected_filter=[FIT],
        expected_victims={0: (["g1"], 0)},  # g2 is put back on device 1, device 0 stays free
    ),
    Case(
        name="victims: a reprieved pod keeps its own GPU",
        # p1: device 0 -> 200 left; p3: device 1 -> 500; p2: device 0 is tightest (200) -> 0
        nodes=(node("n0", gpus=2),),
        placed=(
            (pod("p1", priority=1, gpu=(1, 800)), 0),
            (pod("p3", priority=3, gpu=(1, 500)), 0),
            (pod("p2", priority=2, gpu=(1, 200)), 0),
        ),
        pod=pod(priority=10, gpu=(1, 1000)),
        expected_gpu_left=[[0, 500]],
        # p3 back on device 1, device 0 free: stays. p2 back on device 0: 800 left, no whole device: goes.
        # p1 on device 0: goes. (Were pods packed anew, p2 would join p3 on one device.)
        expected_victims={0: (["p2", "p1"], 0)},
    ),
)

THREE_DBS = tuple((runs(f"d{i}", "db", priority=i, cpu=3000), 0) for i in (3, 2, 1))


def keep(**bounds: int) -> DisruptionBudget:
    """A budget for app=db."""
    return DisruptionBudget(
        "db", app("db"), min_available=bounds.get("least"), max_unavailable=bounds.get("gone")
    )


BUDGET_CASES = (
    Case(
        name="budget: the most important pods use it up, the others violate and are reprieved first",
        nodes=ONE,
        placed=THREE_DBS,
        budgets=(keep(least=2),),
        pod=urgent(4000),
        # allowed 3 - 2 = 1: d3 takes it (0), d2 (-1) and d1 (-2) violate.
        # put back d2: 3000 + 4000; d1: 6000 + 4000 = 10000; d3: 9000 + 4000 does not fit
        expected_victims={0: (["d3"], 0)},
    ),
    Case(
        name="budget: maxUnavailable allows as many while all run",
        nodes=ONE,
        placed=THREE_DBS,
        budgets=(keep(gone=1),),
        pod=urgent(4000),
        expected_victims={0: (["d3"], 0)},  # allowed 1 - (3 - 3) = 1, as above
    ),
    Case(
        name="budget: nothing allowed, eviction all the same",
        nodes=ONE,
        placed=THREE_DBS,
        budgets=(keep(least=3),),
        pod=urgent(4000),
        expected_victims={0: (["d1"], 1)},  # all violate: d3 and d2 are put back, d1 is not
        expected_preempt=(0, ["d1"]),
    ),
    Case(
        name="budget: more demanded than there are allows nothing, not less",
        nodes=ONE,
        placed=THREE_DBS,
        budgets=(keep(least=5),),
        pod=urgent(4000),
        expected_victims={0: (["d1"], 1)},  # max(0, 3 - 5) = 0
    ),
    Case(
        name="budget: violating victims are named first",
        nodes=ONE,
        placed=(
            (worker("o5", 5, 3000), 0),
            (runs("d1", "db", priority=1, cpu=3000), 0),
            (worker("o4", 4, 3000), 0),
        ),
        budgets=(keep(gone=0),),
        pod=urgent(9000),
        expected_victims={0: (["d1", "o5", "o4"], 1)},
    ),
    Case(
        name="budget: a violating pod is reprieved before a more important one",
        nodes=ONE,
        placed=((worker("o5", 5, 5000), 0), (runs("d1", "db", priority=1, cpu=5000), 0)),
        budgets=(keep(gone=0),),
        pod=urgent(5000),
        expected_victims={0: (["o5"], 0)},
    ),
    Case(
        name="budget: healthy pods are counted in the whole cluster",
        nodes=TWO,
        placed=(*THREE_DBS, (runs("d9", "db", priority=9, cpu=1000), 1)),
        budgets=(keep(least=3),),
        pod=urgent(4000),
        expected_victims={0: (["d3"], 0)},  # allowed 4 - 3 = 1
    ),
    Case(
        name="budget: other namespaces, empty selectors and unlabelled pods are not protected",
        nodes=ONE,
        placed=((worker("plain", 2, 3000), 0), (runs("d1", "db", priority=1, cpu=6000), 0)),
        budgets=(
            DisruptionBudget("elsewhere", app("db"), namespace="other", max_unavailable=0),
            DisruptionBudget("all", Selector(), max_unavailable=0),
        ),
        pod=urgent(4000),
        expected_victims={0: (["d1"], 0)},
    ),
    Case(
        name="budget: a pod under two budgets violates if one of them is used up",
        nodes=ONE,
        placed=((runs("d1", "db", priority=1, cpu=8000), 0),),
        budgets=(keep(gone=1), DisruptionBudget("second", app("db"), max_unavailable=0)),
        pod=urgent(4000),
        expected_victims={0: (["d1"], 1)},
    ),
)

# In each of these node 1 is right by the criterion alone; node 0 would win if it were not applied.
CHOICE_CASES = (
    Case(
        name="node choice 1: fewest budget violations, whatever the priorities",
        nodes=TWO,
        placed=((runs("d1", "db", priority=1, cpu=8000), 0), (worker("p5", 5, 8000), 1)),
        budgets=(keep(gone=0),),
        pod=urgent(4000),
        expected_victims={0: (["d1"], 1), 1: (["p5"], 0)},
        expected_preempt=(1, ["p5"]),
    ),
    Case(
        name="node choice 2: lowest highest priority, whatever the sum",
        nodes=TWO,
        placed=((worker("p5", 5, 10_000), 0), (worker("p4", 4, 5000), 1), (worker("p3", 3, 5000), 1)),
        pod=urgent(10_000),
        expected_preempt=(1, ["p4", "p3"]),
    ),
    Case(
        name="node choice 3: lowest sum of priorities",
        nodes=TWO,
        placed=(
            (worker("a3", 3, 5000, 9.0), 0),
            (worker("a2", 2, 5000), 0),
            (worker("b3", 3, 5000), 1),
            (worker("b1", 1, 5000), 1),
        ),
        pod=urgent(10_000),
        # highest 3 on both; 5 + 2*2^31 against 4 + 2*2^31 (a3 started later, which would decide for node 0)
        expected_preempt=(1, ["b3", "b1"]),
    ),
    Case(
        name="node choice 3: negative priorities do not make more victims better",
        nodes=TWO,
        placed=((worker("a3", 3, 5000), 0), (worker("a-5", -5, 5000), 0), (worker("b3", 3, 10_000), 1)),
        pod=urgent(10_000),
        # plain sums would be -2 against 3; shifted: -2 + 2*2^31 against 3 + 2^31
        expected_preempt=(1, ["b3"]),
    ),
    Case(
        name="node choice 4: fewest victims",
        nodes=TWO,
        placed=(
            (worker("a3", 3, 5000, 9.0), 0),
            (worker("a-lowest", LOWEST, 5000), 0),
            (worker("b3", 3, 10_000), 1),
        ),
        pod=urgent(10_000),
        # sums 3 + 2^31 + 0 and 3 + 2^31; two victims against one (a3 started later)
        expected_preempt=(1, ["b3"]),
    ),
    Case(
        name="node choice 5: latest start of the highest victim",
        nodes=TWO,
        placed=((worker("old", 3, 8000, 10.0), 0), (worker("new", 3, 8000, 20.0), 1)),
        pod=urgent(4000),
        expected_preempt=(1, ["new"]),
    ),
    Case(
        name="node choice 5: the earliest of several highest victims counts",
        nodes=TWO,
        placed=(
            (worker("a30", 3, 5000, 30.0), 0),
            (worker("a5", 3, 5000, 5.0), 0),
            (worker("b10", 3, 5000, 10.0), 1),
            (worker("b20", 3, 5000, 20.0), 1),
        ),
        pod=urgent(10_000),
        expected_preempt=(1, ["b10", "b20"]),  # 5 against 10
    ),
    Case(
        name="node choice 5: lower victims' starts do not count",
        nodes=TWO,
        placed=(
            (worker("a3", 3, 5000, 20.0), 0),
            (worker("a2", 2, 5000, 40.0), 0),
            (worker("b3", 3, 5000, 30.0), 1),
            (worker("b2", 2, 5000, 1.0), 1),
        ),
        pod=urgent(10_000),
        expected_preempt=(1, ["b3", "b2"]),  # 20 against 30
    ),
    Case(
        name="node choice: all equal, the first visited",
        nodes=TWO,
        placed=((worker("p0", 3, 8000), 0), (worker("p1", 3, 8000), 1)),
        pod=urgent(4000),
        expected_preempt=(0, ["p0"]),
    ),
    Case(
        name="node choice: all equal, the first visited from the offset",
        nodes=TWO,
        placed=((worker("p0", 3, 8000), 0), (worker("p1", 3, 8000), 1)),
        pod=urgent(4000),
        offset=1,
        expected_preempt=(1, ["p1"]),
    ),
    Case(
        name="node choice: all equal, visited in node order over zones",
        # order n0, n2, n1; n0 holds a peer, so the list of candidates is n2, n1
        nodes=(node("n0", zone="z1"), node("n1", zone="z1"), node("n2", zone="z2")),
        placed=((worker("peer", 10, 8000), 0), (worker("p1", 3, 8000), 1), (worker("p2", 3, 8000), 2)),
        pod=urgent(4000),
        expected_preempt=(2, ["p2"]),
    ),
)

ELIGIBILITY_CASES = (
    Case(
        name="preemption: never, if the pod's policy says so",
        nodes=ONE,
        placed=((worker("low", 1, 8000), 0),),
        pod=pod(priority=10, cpu=4000, may_preempt=False),
        expected_preempt=None,
    ),
    Case(
        name="preemption: unresolvable nodes are no candidates",
        # n0 is tainted, n1 too small in all, n2 cordoned; all hold cheaper victims than n3
        nodes=(
            node("n0", taints=(Taint("k"),)),
            node("n1", cpu=3000),
            node("n2", unschedulable=True),
            node("n3"),
        ),
        placed=(
            (worker("p0", 1, 8000), 0),
            (worker("p1", 1, 3000), 1),
            (worker("p2", 1, 8000), 2),
            (worker("p3", 5, 8000), 3),
        ),
        pod=urgent(4000),
        expected_filter=["TaintToleration", FIT, "NodeUnschedulable", FIT],
        expected_resolvable=[False, False, False, True],
        expected_preempt=(3, ["p3"]),
    ),
    Case(
        name="preemption: the offset counts in the list of resolvable nodes",
        nodes=(node("n0", taints=(Taint("k"),)), node("n1"), node("n2")),
        placed=((worker("p1", 3, 8000), 1), (worker("p2", 3, 8000), 2)),
        pod=urgent(4000),
        offset=1,  # of the list n1, n2
        expected_preempt=(2, ["p2"]),
    ),
    Case(
        name="preemption: unresolvable everywhere",
        nodes=(node("n0", taints=(Taint("k"),)),),
        placed=((worker("p0", 1, 8000), 0),),
        pod=urgent(4000),
        expected_preempt=None,
    ),
)

MANY = tuple(node(f"n{i}") for i in range(120))
# Victims of priority 3 everywhere, of priority 1 on node 110. Enough are min(120, max(100, 12)) = 100.
MANY_WORKERS = tuple((worker(f"p{i}", 1 if i == 110 else 3, 8000), i) for i in range(120))

COUNT_CASES = (
    Case(
        name="candidates: 100 of 120 are enough, the best beyond them is not seen",
        nodes=MANY,
        placed=MANY_WORKERS,
        pod=urgent(4000),
        expected_preempt=(0, ["p0"]),  # visited 0..99
    ),
    Case(
        name="candidates: another offset sees others",
        nodes=MANY,
        placed=MANY_WORKERS,
        pod=urgent(4000),
        offset=50,
        expected_preempt=(110, ["p110"]),  # visited 50..119, 0..29
    ),
    Case(
        name="candidates: the search does not stop before one violates no budget",
        nodes=MANY,
        placed=tuple(
            (worker(f"p{i}", 5, 8000) if i == 105 else runs(f"p{i}", "db", priority=3, cpu=8000), i)
            for i in range(120)
        ),
        budgets=(keep(gone=0),),
        pod=urgent(4000),
        expected_preempt=(105, ["p105"]),
    ),
)

PREEMPTION_CASES = (*VICTIM_CASES, *BUDGET_CASES, *CHOICE_CASES, *ELIGIBILITY_CASES, *COUNT_CASES)
