"""The pods world in steady time as a plain event loop over lists: slow, and simple enough to be believed.

Departures, arrivals and ended back-offs of one moment come first, in this order; then decisions, highest
priority first, then longest in the queue; then those that were woken while they back off, by the second in
which that ends. What to decide is injected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from proreus.model.decision import Decision, Delay, Place, Preempt, Reject
from proreus.model.pod import Pod
from proreus.model.workload import Workload
from tests.oracles.kube_filters import FILTERS, first_failure, inter_pod_affinity, pod_topology_spread
from tests.oracles.kube_preemption import dry_run
from tests.oracles.kube_state import ClusterState, Running, pod_term_matches
from tests.oracles.packing import tightest

LogRow = tuple[str, str, str, float, float, float, int]
"""Name, status, last node, arrival, last start, finish, evictions; times are NaN where there is none."""

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
    node: str = ""
    """Where it was last placed."""
    started: float = math.nan
    finished: float = math.nan
    since: float = 0.0
    """When its back-off or its run ends."""
    stamp: tuple[float, int] = (0.0, 0)
    """When it came into the queue or was last decided about in vain, and the order in which that happened."""
    sequence: int = 0
    """The order in which it was placed."""


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
        self.dollars = 0.0
        self._sequence = 0
        self._placements = 0

    def run(self, choose: Callable[[ReferenceWorld, Pod], Decision]) -> None:
        """To the end, asking `choose` about one pod at a time."""
        while True:
            self.state.waiting = [
                life.pod
                for status in ("queued", "woken", "backing off", "pooled")
                for life in self._with_status(status)
            ]
            active = self._with_status("queued") or self._with_status("woken")
            if active:
                life = min(active, key=place_in_queue)
                self.decisions.append((life.pod.name, self.now))
                self._carry_out(life, choose(self, life.pod))
            elif math.isinf(time := self._next_time()):
                break
            else:
                self.dollars += self._price() * (time - self.now) / 3600
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
                life.node,
                life.pod.arrival,
                life.started,
                life.finished,
                life.evicted,
            )
            for life in self.lives.values()
        ]

    def _price(self) -> float:
        """Dollars an hour of the nodes that hold pods."""
        held = {life.node for life in self._with_status("running")}
        return sum(
            0.031611 * node.allocatable.cpu / 1000
            + 0.004237 * node.allocatable.memory / 2**30
            + 0.95 * node.gpu_count
            for node in self.workload.nodes
            if node.name in held
        )

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
            self._free(self.state.remove(life.pod.name).node, life.pod)
        for life in self._with_status("future"):
            if life.pod.arrival <= self.now:
                if life.pod.node:
                    names = [node.name for node in self.workload.nodes]
                    self._run(life, names.index(life.pod.node), 0)
                    self._wake(lambda pod, new=life.pod: awaits(pod, new))  # type: ignore[misc]
                else:
                    self._queue(life)
        for life in self._with_status("backing off"):
            if life.since <= self.now:
                life.status = "queued"

    def _stamp(self, life: Life) -> None:
        self._sequence += 1
        life.stamp = (self.now, self._sequence)

    def _queue(self, life: Life) -> None:
        self._stamp(life)
        life.status = "queued"

    def _backoff_end(self, life: Life) -> float:
        """A pod backs off from its last failed decision on, until the second in which that ends is over."""
        wait: int = min(2 ** max(life.attempts - 1, 0), 10)
        return math.floor(life.stamp[0] + wait) + 1.0

    def _carry_out(self, life: Life, decision: Decision) -> None:
        match decision:
            case Place(node=node, devices=mask):
                self._start(life, node, mask)
                self._wake(lambda pod: awaits(pod, life.pod))
            case Preempt(node=node):
                self._preempt(life, node)
                self._wake(lambda pod: awaits(pod, life.pod))
            case Delay():
                self._delay(life)
            case Reject():
                life.status = "rejected"

    def _start(self, life: Life, node: int, mask: int) -> None:
        assert first_failure(self.state, life.pod, node) is None
        self._run(life, node, mask)

    def _run(self, life: Life, node: int, mask: int) -> None:
        left = self.state.gpu_left(node)
        devices = tuple(d for d in range(len(left)) if mask >> d & 1) or tightest(left, life.pod.spec.gpu)
        self._placements += 1
        self.state.restore(Running(life.pod, node, self.now, self._placements, devices))
        pace = self.workload.nodes[node].pace
        life.status, life.started, life.sequence = "running", self.now, self._placements
        life.node = self.workload.nodes[node].name
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
        for victim in candidate.victims:
            self._free(node, victim.pod)

    def _delay(self, life: Life) -> None:
        life.attempts += 1
        self._stamp(life)
        nodes = range(len(self.workload.nodes))
        if any(first_failure(self.state, life.pod, node) is None for node in nodes):
            if 0 < self.rules.attempt_limit <= life.attempts:
                life.status = "failed"
            else:
                life.status, life.since = "backing off", self._backoff_end(life)
        elif self.rules.drop_failures:
            life.status = "failed"
        else:
            life.status = "pooled"
            self.pool.append(life)

    def _free(self, node: int, gone: Pod) -> None:
        """`gone` left `node`: those whom this may help leave the pool."""
        self._wake(lambda pod: self._concerns(pod, node, gone))

    def _wake(self, concerned: Callable[[Pod], bool]) -> None:
        waiting, self.pool = self.pool, []
        for life in waiting:
            if not concerned(life.pod):
                self.pool.append(life)
            else:
                life.since = self._backoff_end(life)
                resting = "woken" if self.rules.skip_backoff_when_idle else "backing off"
                life.status = "queued" if life.since <= self.now else resting

    def _concerns(self, pod: Pod, node: int, gone: Pod) -> bool:
        """The pod fits on the node by itself, or with what it may evict there, or was tied to `gone`."""
        alone = all(plugin(self.state, pod, node) is None for plugin in LOCAL_FILTERS)
        return alone or self._evicts_enough(pod, node) or awaits(pod, gone) or kept_apart(pod, gone)

    def _evicts_enough(self, pod: Pod, node: int) -> bool:
        """Every resource would suffice without the lower-priority pods, and there are such pods."""
        here = [each.pod for each in self.state.on_node(node)]
        stay = [each for each in here if each.spec.priority >= pod.spec.priority]
        if not pod.spec.may_preempt or len(stay) == len(here):
            return False
        room = self.workload.nodes[node].allocatable
        wanted = [each.spec.requests for each in (*stay, pod)]
        names = {name for each in wanted for name, _ in each.extended}
        return (
            sum(each.cpu for each in wanted) <= room.cpu
            and sum(each.memory for each in wanted) <= room.memory
            and sum(each.ephemeral for each in wanted) <= room.ephemeral
            and sum(each.network for each in wanted) <= room.network
            and sum(each.disk for each in wanted) <= room.disk
            and len(wanted) <= room.pods
            and all(
                sum(dict(each.extended).get(name, 0) for each in wanted) <= dict(room.extended).get(name, 0)
                for name in names
            )
        )


def place_in_queue(life: Life) -> tuple[float, int, tuple[float, int]]:
    """Who is decided about first; the end of the back-off counts among those that were woken during it."""
    return (life.since if life.status == "woken" else 0.0, -life.pod.spec.priority, life.stamp)


def kept_apart(a: Pod, b: Pod) -> bool:
    """Whether required anti-affinity of either selects the other."""
    return any(
        pod_term_matches(term, owner, other)
        for owner, other in ((a, b), (b, a))
        for term in owner.spec.anti_affinity.required
    )


def awaits(waiting: Pod, placed: Pod) -> bool:
    """Whether the coming of `placed` may satisfy required affinity, or even out hard spread, of `waiting`."""
    terms = waiting.spec.affinity.required
    if terms and all(pod_term_matches(term, waiting, placed) for term in terms):
        return True
    return waiting.spec.namespace == placed.spec.namespace and any(
        constraint.hard
        and constraint.selector.requirements
        and constraint.selector.matches(dict(placed.spec.labels))
        for constraint in waiting.spec.spread
    )
