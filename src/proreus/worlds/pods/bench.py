"""`proreus bench pods`: how fast the pods world and its rules decide.

Peers run in the same process, before and after: a plain Python loop over the same kube rules
for the scheduler_perf shape (its choices must be ours, pod by pod), and FGD and kube without their caches.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple

from proreus.contract.benchmark import BenchRow, claim
from proreus.model.errors import WorkError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, MIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.catalogue import load
from proreus.worlds.pods.datasets.generator import PRESETS, generate
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.rules.choose import feasible_target
from proreus.worlds.pods.policies.rules.columns import FGD, ORDERED
from proreus.worlds.pods.policies.rules.policy import RuleOptions, RulePolicy
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled, compile_workload

KUBE_GOAL = 6_800.0
"""Pods per second at 5,000 nodes on one core: ten times the threshold of scheduler_perf (680)."""
FGD_GOAL = 0.3
"""Seconds for the openb default experiment on one core."""
SCHEDULER_PERF = 680.0
_PEER_PODS = 150
_SIZES = (100, 1_000, 10_000)
_REPEATS = 3
_PART_OF_LARGE = 10


class Basic(NamedTuple):
    """The basic shape of scheduler_perf."""

    cpu: int = 4_000
    memory: int = 32 * GIB
    pods: int = 110
    pod_cpu: int = 100
    pod_memory: int = 500 * MIB


def basic_workload(nodes: int, pods: int) -> Workload:
    """Equal nodes, equal pods, all there at once."""
    shape = Basic()
    room = Resources(cpu=shape.cpu, memory=shape.memory, pods=shape.pods)
    spec = PodSpec(Resources(cpu=shape.pod_cpu, memory=shape.pod_memory))
    return Workload(
        f"basic-{nodes}",
        tuple(Node(f"node-{i}", room) for i in range(nodes)),
        tuple(Pod(f"pod-{i}", spec) for i in range(pods)),
    )


def bench_pods(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    full: Annotated[bool, "The scenario large at its full size, for some minutes."] = False,
) -> Iterator[BenchRow]:
    """The rows, one by one as they are measured; `tell` hears what is going on."""
    tell("kube at 5,000 nodes and 10,000 pods")
    compiled = compile_workload(basic_workload(5_000, 10_000))
    ours, chosen = _best_rate(compiled, "kube")
    tell(f"a plain Python kube over the first {_PEER_PODS} of the same pods")
    peer_rate, expected = plain_kube(5_000, _PEER_PODS)
    if chosen[:_PEER_PODS] != expected:
        raise WorkError("kube and its plain Python peer chose different nodes")
    yield claim(
        "kube, 5,000 nodes, 10,000 pods",
        "pods/s",
        ours,
        goal=KUBE_GOAL,
        peer=(peer_rate, "plain Python, same choices"),
    )
    yield claim(
        "kube against scheduler_perf's threshold",
        "pods/s",
        ours,
        goal=KUBE_GOAL,
        peer=(SCHEDULER_PERF, "published, 6 cores"),
    )
    yield from _fgd_rows(data, tell)
    yield from _large_rows(tell, 1 if full else _PART_OF_LARGE)
    yield from _scaling_rows(tell)
    yield claim("peak memory of this process", "MiB", _peak_memory())


def _best_rate(compiled: Compiled, policy: str) -> tuple[float, list[str]]:
    """(best decisions per second of a few runs, node chosen per pod)."""
    best, nodes = 0.0, []
    for _ in range(_REPEATS):
        outcome = simulate(compiled, make_policy(policy))
        best = max(best, outcome.measures["decisions_per_s"])
        nodes = [row[2] for row in outcome.log]
    return best, nodes


def _large_rows(tell: Callable[[str], None], part: int) -> Iterator[BenchRow]:
    """kube where pods queue and are tried again, on one part in so many of the scenario `large`."""
    config = PRESETS["large"]
    nodes, pods = config.nodes // part, (config.pods or 0) // part
    compiled = compile_workload(generate("large", 0, nodes=nodes, pods=pods))
    tell(f"kube on large with {len(compiled.workload.nodes):,} nodes")
    ours, scored, expected = _kube_seconds(compiled, cache=True)
    tell("the same without a memory")
    plain, plain_scored, logged = _kube_seconds(compiled, cache=False)
    if expected != logged:
        raise WorkError("kube chose differently with and without its memory")
    what = f"kube, large, {len(compiled.workload.nodes):,} nodes, {len(compiled.workload.pods):,} pods"
    yield claim(what, "CPU-s", ours, better="lower", peer=(plain, "nothing remembered"))
    yield claim(
        f"{what}: node scores computed",
        "scores",
        scored,
        better="lower",
        peer=(plain_scored, "nothing remembered"),
    )


def _kube_seconds(compiled: Compiled, *, cache: bool) -> tuple[float, float, str]:
    """(CPU seconds of a run, node scores computed, what became of every pod)."""
    kube = make_policy("kube")
    assert isinstance(kube, RulePolicy)
    policy = RulePolicy(replace(kube.options, cache=cache))
    begin = time.process_time()
    outcome = simulate(compiled, policy)
    return time.process_time() - begin, float(policy.scores_computed()), repr(outcome.log)


def _fgd_rows(data: Path | None, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    source = "openb default" if data is not None else "generated, openb-like"
    tell(f"FGD on {source}")
    workload = load("openb/default", data, 42) if data is not None else generate("gpu", 42, nodes=1_213)
    compiled = compile_workload(workload)
    cached = _seconds(compiled, cache=True)
    tell("FGD without its cache")
    whole = _seconds(compiled, cache=False)
    what = f"FGD, {source}: {len(workload.nodes):,} nodes, {len(workload.pods):,} pods"
    yield claim(
        what, "s", cached[0], goal=FGD_GOAL, better="lower", peer=(whole[0], "every node scored each time")
    )
    yield claim(
        "FGD, node scores computed",
        "scores",
        cached[1],
        better="lower",
        peer=(whole[1], "every node scored each time"),
    )
    if cached[2] != whole[2]:
        raise WorkError("FGD chose differently with and without its cache")


def _seconds(compiled: Compiled, *, cache: bool) -> tuple[float, float, list[str]]:
    """(best seconds of a run, node scores computed, node chosen per pod)."""
    best, scored, nodes = float("inf"), 0.0, []
    for _ in range(_REPEATS):
        policy = RulePolicy(RuleOptions("fgd", FGD, ORDERED, cache=cache))
        begin = time.perf_counter()
        outcome = simulate(compiled, policy, PodsOptions(drop_failures=True))
        best = min(best, time.perf_counter() - begin)
        scored = float(policy.scores_computed())
        nodes = [row[2] for row in outcome.log]
    return best, scored, nodes


def _scaling_rows(tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """Cost per decision by cluster size, for a sampled rule and for one that looks at every node."""
    for policy in ("kube", "best_fit"):
        cost = {}
        for nodes in _SIZES:
            tell(f"{policy} at {nodes:,} nodes")
            rate, _ = _best_rate(compile_workload(basic_workload(nodes, 2 * nodes)), policy)
            cost[nodes] = 1e6 / rate
            yield claim(f"{policy}, cost of a decision at {nodes:,} nodes", "us", cost[nodes], better="lower")
        growth = cost[_SIZES[-1]] / cost[_SIZES[0]]
        times = _SIZES[-1] / _SIZES[0]
        yield claim(
            f"{policy}, growth of cost for {times:.0f} times the nodes",
            "x",
            growth,
            goal=times,
            better="lower",
        )


def _peak_memory() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 if sys.platform != "darwin" else peak / MIB


def plain_kube(nodes: int, pods: int) -> tuple[float, list[str]]:
    """(decisions per second, chosen nodes) of kube 1.36's rules for the basic shape, in plain Python."""
    shape = Basic()
    free = [[shape.cpu, shape.memory, shape.pods] for _ in range(nodes)]
    wanted = feasible_target(nodes, 0)
    start = 0
    chosen = []
    begin = time.perf_counter()
    for _ in range(pods):
        feasible: list[int] = []
        visited = 0
        while visited < nodes and len(feasible) < wanted:
            n = (start + visited) % nodes
            visited += 1
            cpu, memory, slots = free[n]
            if cpu >= shape.pod_cpu and memory >= shape.pod_memory and slots >= 1:
                feasible.append(n)
        start = (start + visited) % nodes
        best = _heap_root([(_plain_score(shape, free[n]), n) for n in feasible])
        free[best][0] -= shape.pod_cpu
        free[best][1] -= shape.pod_memory
        free[best][2] -= 1
        chosen.append(f"node-{best}")
    return pods / (time.perf_counter() - begin), chosen


def _heap_root(scored: list[tuple[int, int]]) -> int:
    """The node at the root of the max-heap that Go's container/heap makes of (score, node)."""
    for parent in reversed(range(len(scored) // 2)):
        while (child := 2 * parent + 1) < len(scored):
            if child + 1 < len(scored) and scored[child + 1][0] > scored[child][0]:
                child += 1
            if scored[child][0] <= scored[parent][0]:
                break
            scored[child], scored[parent] = scored[parent], scored[child]
            parent = child
    return scored[0][1]


def _plain_score(shape: Basic, free: Sequence[int]) -> int:
    """NodeResourcesFit (LeastAllocated) and BalancedAllocation; the other plugins score all nodes alike."""
    cpu, memory = shape.cpu - free[0], shape.memory - free[1]
    after_cpu, after_memory = cpu + shape.pod_cpu, memory + shape.pod_memory
    fit = (
        (shape.cpu - after_cpu) * 100 // shape.cpu + (shape.memory - after_memory) * 100 // shape.memory
    ) // 2
    before = int((1.0 - abs(cpu / shape.cpu - memory / shape.memory) / 2.0) * 100)
    after = int((1.0 - abs(after_cpu / shape.cpu - after_memory / shape.memory) / 2.0) * 100)
    return fit + 50 + int((50 + after - before) / 2)
