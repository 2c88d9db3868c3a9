"""`proreus bench live`: a cluster that is kept up to date beside one that is compiled anew.

A generated cluster is filled with running pods. Then pods are added, bound and removed one by one, and
policies are asked in between. The peer of a question is a fresh compile of the same cluster in the same run;
both must decide alike or the bench fails. Times are of the processor: what else the machine does is not ours;
only over the wire (`live_wire`) the clock counts.
"""

from __future__ import annotations

import gc
import random
import resource
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from proreus.bench.live_cluster import GPU_EVERY, GeneratedCluster, generate_cluster
from proreus.bench.live_wire import wire_rows
from proreus.contract.benchmark import BenchRow, claim
from proreus.model.decision import Place
from proreus.model.errors import InputError, UsageError, WorkError
from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import MIB
from proreus.model.workload import Workload
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.state.compile import compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.open.cluster import OpenCluster
from proreus.worlds.pods.state.open.warm_up import warm_up_open
from proreus.worlds.pods.state.placement import place

EVENT_GOAL, DECISION_GOAL, GROWTH_GOAL = 20.0, 500.0, 1.05
"""CPU microseconds of an event and of a decision at the 99th percentile, memory after by before."""
POLICIES = ("kube", "learned")
_SEED = 7
_EVENTS, _DECISIONS, _STRANGERS, _NODES = 20_000, 4_000, 100, 20


def bench_live(
    data: Path | None,
    tell: Callable[[str], None],
    *,
    nodes: Annotated[int, "Nodes of the generated cluster."] = 5_000,
    pods: Annotated[int, "Pods in it."] = 50_000,
    events: Annotated[int, "Pods that come and go in the last part."] = 1_000_000,
) -> Iterator[BenchRow]:
    """Events, decisions and memory at so many nodes and pods, and a churn of events; needs no data."""
    del data
    if min(nodes, pods, events) < 1:
        raise UsageError("--nodes, --pods and --events must be at least 1")
    tell("compiling kernels")
    warm_up_open()
    generated = generate_cluster(nodes, _SEED)
    tell(f"filling {nodes:,} nodes with {pods:,} pods")
    live, begin = _Live(generated), time.process_time()
    live.fill(pods)
    live.ask(generated.specs[0])
    filled = time.process_time() - begin
    tell("a fresh compile of the same")
    compiled, columns = _fresh_compile(live)
    peer = (compiled, "fresh compile")
    what = f"{nodes:,} nodes, {pods:,} pods"
    yield claim(f"first filling, {what}", "CPU-s", filled, better="lower", peer=peer)
    yield from _event_rows(live, compiled, tell)
    yield from _node_rows(live, compiled, tell)
    for name in POLICIES:
        yield from _decision_rows(live, name, compiled, tell)
    ours = live.cluster.bytes()
    yield claim("columns", "MiB", ours / MIB, better="lower", peer=(columns / MIB, "fresh compile"))
    tell("memory by pod")
    yield claim("memory by pod, beside the pod itself", "bytes", _bytes_by_pod(generated, pods))
    yield from _churn_rows(live, events, tell)
    yield from wire_rows(generated, list(islice(generated.pods(_SEED), pods)), POLICIES, tell)


class _Live:
    """The open cluster under test, and the names of the pods in it."""

    def __init__(self, generated: GeneratedCluster) -> None:
        self.cluster, self.generated = OpenCluster(), generated
        self.names: list[str] = []
        self._coming = generated.pods(_SEED)
        self._rng = random.Random(_SEED)
        for budget in generated.budgets:
            self.cluster.add_budget(budget)
        for node in generated.nodes:
            self.cluster.add_node(node)

    def fill(self, pods: int) -> None:
        """So many pods more; those that want GPUs which are taken wait."""
        for pod in islice(self._coming, pods):
            try:
                self.cluster.add_pod(pod, self.any_node(pod.spec))
            except InputError:
                self.cluster.add_pod(pod)
            self.names.append(pod.name)

    def ask(self, spec: PodSpec) -> PodObservation:
        """A question about a pod of that spec."""
        return self.cluster.observe(Pod("asked", spec))

    def coming(self, count: int) -> list[Pod]:
        """The next pods."""
        return list(islice(self._coming, count))

    def any_node(self, spec: PodSpec) -> str:
        """A node by lot; one with GPUs for a pod that wants them."""
        step = GPU_EVERY if spec.gpu.count else 1
        return self.generated.nodes[self._rng.randrange(0, len(self.generated.nodes), step)].name

    def leaving(self) -> str:
        """Some pod that is there, taken off the list."""
        at = self._rng.randrange(len(self.names))
        self.names[at], self.names[-1] = self.names[-1], self.names[at]
        return self.names.pop()


def _fresh_compile(live: _Live) -> tuple[float, int]:
    """(seconds of a fresh compile of what is there, bytes of its columns); every app must get the same."""
    asked = tuple(Pod(f"asked-{app}", spec) for app, spec in enumerate(live.generated.specs))
    there = live.cluster.snapshot()
    begin = time.process_time()
    rows = {node.name: n for n, node in enumerate(there.nodes)}
    pods = (*asked, *(each.pod for each in there.running), *there.waiting)
    compiled = compile_workload(Workload("fresh", there.nodes, pods, there.budgets), there.demand)
    state = empty_state(compiled.cluster)
    for p, each in enumerate(there.running, start=len(asked)):
        place(compiled.cluster, state, p, rows[each.node], each.devices, each.since)
    seconds = time.process_time() - begin
    scratch = new_scratch(compiled.cluster)
    for name in POLICIES:
        policy = make_policy(name)
        for p, pod in enumerate(asked):
            fresh = PodObservation(compiled, state, scratch, p, 0.0)
            expected = policy.fresh(0).decide(fresh)
            decision = policy.fresh(0).decide(live.ask(pod.spec))
            if decision != expected:
                raise WorkError(f"{name} decides otherwise after a fresh compile: {decision}, {expected}")
    return seconds, sum(_bytes(columns) for columns in (compiled.cluster, state, scratch))


def _bytes(columns: Any) -> int:
    """Of a handle and those inside it."""
    return sum(value.nbytes if isinstance(value, np.ndarray) else _bytes(value) for value in columns.columns)


def _event_rows(live: _Live, compiled: float, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    tell("events")
    cluster, peer = live.cluster, (1e6 * compiled, "fresh compile")
    plain = [pod for pod in live.coming(2 * _EVENTS) if not pod.spec.gpu.count]
    half = len(plain) // 2
    placed = [(pod, live.any_node(pod.spec)) for pod in plain[:half]]
    waiting = [(pod, live.any_node(pod.spec)) for pod in plain[half:]]
    begin = time.process_time()
    for pod, node in placed:
        cluster.add_pod(pod, node)
    added = time.process_time()
    for pod, _ in waiting:
        cluster.add_pod(pod)
    waited = time.process_time()
    for pod, node in waiting:
        cluster.bind_pod(pod.name, node)
    bound = time.process_time()
    for pod in plain:
        cluster.remove_pod(pod.name)
    removed = time.process_time()
    for what, seconds, count in (
        ("add a running pod", added - begin, len(placed)),
        ("add a waiting pod", waited - added, len(waiting)),
        ("bind a pod", bound - waited, len(waiting)),
        ("remove a pod", removed - bound, len(plain)),
    ):
        yield claim(what, "CPU-us", 1e6 * seconds / max(count, 1), goal=EVENT_GOAL, better="lower", peer=peer)
    equal = [Pod(pod.name, replace(pod.spec)) for pod in plain[:half]]
    begin = time.process_time()
    for pod in equal:
        cluster.add_pod(pod)
    seconds = time.process_time() - begin
    for pod in equal:
        cluster.remove_pod(pod.name)
    yield claim(
        "add a pod whose spec is equal, but another object",
        "CPU-us",
        1e6 * seconds / max(half, 1),
        goal=EVENT_GOAL,
        better="lower",
        peer=peer,
    )


def _node_rows(live: _Live, compiled: float, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """Nodes join, are cordoned and leave, each with the question after it."""
    tell("nodes")
    cluster, first = live.cluster, live.generated.nodes[0]
    joining = [replace(first, name=f"joins-{k}") for k in range(_NODES)]
    events: dict[str, Callable[[Node], None]] = {
        "a node joins": cluster.add_node,
        "a node is cordoned": lambda node: cluster.update_node(replace(node, unschedulable=True)),
        "a node leaves": lambda node: cluster.remove_node(node.name),
    }
    for what, event in events.items():
        taken = []
        for node in joining:
            begin = time.process_time()
            event(node)
            live.ask(live.generated.specs[0])
            taken.append(time.process_time() - begin)
        each = 1e6 * float(np.median(taken))
        yield claim(what, "CPU-us", each, better="lower", peer=(1e6 * compiled, "fresh compile"))


def _decision_rows(
    live: _Live, name: str, compiled: float, tell: Callable[[str], None]
) -> Iterator[BenchRow]:
    """Decisions, each carried out, while as many pods leave as come."""
    tell(f"decisions of {name}")
    cluster, policy = live.cluster, make_policy(name)
    for spec in live.generated.specs:
        policy.decide(live.ask(spec))
    taken = []
    for pod in live.coming(_DECISIONS):
        begin = time.process_time()
        decision = policy.decide(cluster.observe(pod))
        taken.append(time.process_time() - begin)
        if isinstance(decision, Place):
            cluster.add_pod(pod, live.generated.nodes[decision.node].name, decision.devices)
            live.names.append(pod.name)
            cluster.remove_pod(live.leaving())
    peer = (1e6 * compiled, "fresh compile")
    middle, late = np.percentile(np.array(taken) * 1e6, (50, 99)).tolist()
    yield claim(f"{name}, a decision, median", "CPU-us", middle, better="lower", peer=peer)
    yield claim(f"{name}, a decision, 99 %", "CPU-us", late, goal=DECISION_GOAL, better="lower", peer=peer)
    taken = []
    for k, spec in enumerate(live.generated.specs[:_STRANGERS]):
        stranger = replace(spec, labels=(*spec.labels, (name, str(k))), cpu_limit=10_000 + k)
        begin = time.process_time()
        policy.decide(live.ask(stranger))
        taken.append(time.process_time() - begin)
    strange = float(np.median(taken)) * 1e6
    yield claim(f"{name}, a class never seen, median", "CPU-us", strange, better="lower", peer=peer)


def _bytes_by_pod(generated: GeneratedCluster, pods: int) -> float:
    """What a cluster takes for each pod, the pod itself not counted."""
    live = _Live(generated)
    live.fill(10 * len(generated.specs))  # what a class takes is not by pod
    live.ask(generated.specs[0])
    coming = [(pod, live.any_node(pod.spec)) for pod in live.coming(pods)]
    gc.collect()
    tracemalloc.start()
    for pod, node in coming:
        try:
            live.cluster.add_pod(pod, node)
        except InputError:
            live.cluster.add_pod(pod)
    live.ask(generated.specs[0])
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / pods


def _churn_rows(live: _Live, events: int, tell: Callable[[str], None]) -> Iterator[BenchRow]:
    """As many pods leave as come; now and then one of a class never seen, and a node that is updated."""
    tell(f"{events:,} events")
    cluster = live.cluster
    # Once around, so that what is bought for good has been bought.
    _churn(live, min(events // 10, 50_000), 0)
    gc.collect()
    before, columns = _resident(), cluster.bytes()
    begin = time.process_time()
    _churn(live, events, 1)
    seconds = time.process_time() - begin
    gc.collect()
    each = 1e6 * seconds / events
    yield claim(f"churn of {events:,} events, each", "CPU-us", each, goal=EVENT_GOAL, better="lower")
    yield claim(
        "memory of this process after the churn",
        "MiB",
        _resident() / MIB,
        goal=GROWTH_GOAL * before / MIB,
        better="lower",
        peer=(before / MIB, "before it"),
    )
    yield claim(
        "columns after the churn",
        "MiB",
        cluster.bytes() / MIB,
        goal=GROWTH_GOAL * columns / MIB,
        better="lower",
        peer=(columns / MIB, "before it"),
    )


def _churn(live: _Live, events: int, part: int) -> None:
    cluster, rng = live.cluster, random.Random(part)
    for done in range(0, events, 2):
        (pod,) = live.coming(1)
        if done % 1_000 == 0:
            pod = Pod(pod.name, replace(pod.spec, cpu_limit=20_000 + done + part))
            cluster.observe(pod)
            node = live.generated.nodes[rng.randrange(len(live.generated.nodes))]
            cluster.update_node(replace(node, unschedulable=not cluster.node(node.name).unschedulable))
        try:
            cluster.add_pod(pod, live.any_node(pod.spec))
        except InputError:
            cluster.add_pod(pod)
        live.names.append(pod.name)
        cluster.remove_pod(live.leaving())


def _resident() -> float:
    """Bytes that this process holds; where the system does not tell, the most that it ever held."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)
