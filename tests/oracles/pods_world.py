"""The pods world in steady time as a plain event loop over lists: slow, and simple enough to be believed.

Departures, arrivals and ended back-offs of one moment come first, in this order; then decisions, highest
priority first, then longest in the queue. What to decide is injected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from oracles.kube_filters import FILTERS, first_failure, inter_pod_affinity, pod_topology_spread
from oracles.kube_preemption import dry_run
from oracles.kube_state import ClusterState, Running, pod_term_matches
from oracles.packing import tightest
from proreus.model.decision import Decision, Delay, Place, Preempt, Reject
from proreus.model.pod import Pod
from proreus.model.workload import Workload

LogRow = tuple[str, str, str, float, float, float, int]
"""Name, status, node, arrival, last start, finish, evictions; times are NaN where there is none."""

LOCAL_FILTERS = tuple(each for each in FILTERS if each not in (pod_topology_spread, inter_pod_affinity))


@dataclass(frozen=True)
class Rules:
    """How pods that cannot be placed are treated; the names of `PodsOptions`."""

    drop_failures: bool = False
    requeue_evicted: bool = True
    skip_backoff_when_idle: bool = True
    attempt_limit: int = 100


@dataclass
class Life:
    """What has become of one pod."""

    pod: Pod
    status: str = "future"
    attempts: int = 0
    evicted: int = 0
    started: float = math.nan
    finished: float = math.nan
    since: float = 0.0
    """When it last entered the queue, or when its back-off or its run ends."""
    sequence: int = 0
    """The order in which things were queued, or placed."""


@dataclass
class ReferenceWorld:
    """A run in progress."""

    workload: Workload
    rules: Rules = field(default_factory=Rules)

    def __post_init__(self) -> None:
        self.state = ClusterState(self.workload.nodes)
        self.lives = {pod.name: Life(pod) for pod in self.workload.pods}
        self.now = self.workload.pods[0].arrival if self.workload.pods else 0.0
        self.pool: list[Life] = []
        self.decisions: list[tuple[str, float]] = []
        self._sequence = 0
        self._placements = 0

    def run(self, choose: Callable[[ReferenceWorld, Pod], Decision]) -> None:
        """To the end, asking `choose` about one pod at a time."""
        while True:
            active = self._with_status("queued")
            if active:
                life = min(active, key=lambda each: (-each.pod.spec.priority, each.since, each.sequence))
                self.decisions.append((life.pod.name, self.now))
                self._carry_out(life, choose(self, life.pod))
            elif math.isinf(time := self._next_time()):
                break
            else:
                self.now = time
                self._happen()
        for life in self.pool:
            life.status = "failed"

    def log(self) -> list[LogRow]:
        """One row per pod."""
        return [
            (
                life.pod.name,
                life.status,
                self.workload.nodes[self.state.running[name].node].name if name in self.state.running else "",
                life.pod.arrival,
                life.started,
                life.finished,
                life.evicted,
            )
            for name, life in self.lives.items()
        ]

    def _with_status(self, status: str) -> list[Life]:
        return [life for life in self.lives.values() if life.status == status]

    def _next_time(self) -> float:
        times = [life.pod.arrival for life in self._with_status("future")]
        times += [life.since for life in self._with_status("backing off")]
        times += [life.since for life in self._with_status("running")]
        return min(times, default=math.inf)

    def _happen(self) -> None:
        """Everything that happens at this moment by itself."""
        ended = [life for life in self._with_status("running") if life.since <= self.now]
        for life in sorted(ended, key=lambda each: (each.since, each.sequence)):
            life.status, life.finished = "done", self.now
            self._wake(self.state.remove(life.pod.name).node)
        for life in self._with_status("future"):
            if life.pod.arrival <= self.now:
                self._queue(life)
        rested = [life for life in self._with_status("backing off") if life.since <= self.now]
        for life in sorted(rested, key=lambda each: (each.since, each.sequence)):
            self._queue(life)

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _queue(self, life: Life) -> None:
        life.status, life.since, life.sequence = "queued", self.now, self._next_sequence()

    def _back_off(self, life: Life) -> None:
        wait = min(2 ** max(life.attempts - 1, 0), 10)
        life.status, life.since = "backing off", float(math.ceil(self.now + wait))
        life.sequence = self._next_sequence()

    def _carry_out(self, life: Life, decision: Decision) -> None:
        match decision:
            case Place(node=node, devices=mask):
                self._start(life, node, mask)
            case Preempt(node=node):
                self._preempt(life, node)
            case Delay():
                self._delay(life)
            case Reject():
                life.status = "rejected"

    def _start(self, life: Life, node: int, mask: int) -> None:
        assert first_failure(self.state, life.pod, node) is None
        left = self.state.gpu_left(node)
        devices = tuple(d for d in range(len(left)) if mask >> d & 1) or tightest(left, life.pod.spec.gpu)
        self._placements += 1
        self.state.restore(Running(life.pod, node, self.now, self._placements, devices))
        pace = self.workload.nodes[node].pace
        life.status, life.started, life.sequence = "running", self.now, self._placements
        life.since = self.now + pace.start_seconds + life.pod.duration / pace.speed

    def _preempt(self, life: Life, node: int) -> None:
        candidate = dry_run(self.state, self.workload.budgets, life.pod, node)
        assert candidate is not None
        for victim in candidate.victims:
            self.state.remove(victim.pod.name)
            other = self.lives[victim.pod.name]
            other.evicted += 1
            other.attempts = 0
            if self.rules.requeue_evicted:
                self._queue(other)
            else:
                other.status = "failed"
        self._start(life, node, 0)
        self._wake(node)

    def _delay(self, life: Life) -> None:
        life.attempts += 1
        nodes = range(len(self.workload.nodes))
        if any(first_failure(self.state, life.pod, node) is None for node in nodes):
            if 0 < self.rules.attempt_limit <= life.attempts:
                life.status = "failed"
            else:
                self._back_off(life)
        elif self.rules.drop_failures:
            life.status = "failed"
        else:
            life.status = "pooled"
            self.pool.append(life)

    def _wake(self, node: int) -> None:
        """Room came free on `node`: those who may use it leave the pool."""
        waiting, self.pool = self.pool, []
        for life in waiting:
            if not self._concerns(life.pod, node):
                self.pool.append(life)
            elif self.rules.skip_backoff_when_idle:
                self._queue(life)
            else:
                self._back_off(life)

    def _concerns(self, pod: Pod, node: int) -> bool:
        """The pod fits on the node by itself, or could evict somebody there, or is tied to other pods."""
        alone = all(plugin(self.state, pod, node) is None for plugin in LOCAL_FILTERS)
        lower = any(each.pod.spec.priority < pod.spec.priority for each in self.state.on_node(node))
        return alone or (pod.spec.may_preempt and lower) or self._related(pod)

    def _related(self, pod: Pod) -> bool:
        spec = pod.spec
        return bool(
            spec.spread
            or spec.affinity.required
            or spec.anti_affinity.required
            or any(
                pod_term_matches(term, other, pod)
                for other in self.workload.pods
                for term in other.spec.anti_affinity.required
            )
        )
