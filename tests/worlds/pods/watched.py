"""A run of the pods world watched from outside: a ledger of its own, compared at every step."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.model.decision import Decision, Place, Preempt
from proreus.model.pod import GPU_WHOLE
from proreus.model.resources import PODS
from proreus.worlds.pods.simulation.columns import (
    ACTIVE,
    ALIVE,
    BACKING_OFF,
    DONE,
    FAILED,
    FUTURE,
    NEXT_ARRIVAL,
    POOL_SIZE,
    POOLED,
    REJECTED,
    RUNNING,
    Heap,
    Run,
)
from proreus.worlds.pods.simulation.world import PodsOptions, PodsWorld
from proreus.worlds.pods.state.columns import State
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.observation import PodObservation
from tests.oracles.kube_state import ClusterState, Running
from tests.worlds.pods.recount import check_devices, check_lists, check_sums, row

Choose = Callable[[PodObservation], Decision]


@dataclass(frozen=True)
class Stay:
    """A pod on a node, as the ledger has it."""

    node: int
    devices: int
    start: float
    end: float


@dataclass(frozen=True)
class Step:
    """One decision: what the world showed, what was decided, and who lost their place for it."""

    pod: int
    now: float
    decision: Decision
    legal_nodes: int
    victims: tuple[int, ...]


class Watched:
    """Runs a world and keeps its own books."""

    def __init__(self, compiled: Compiled, options: PodsOptions | None = None) -> None:
        self.compiled = compiled
        self.world = PodsWorld(compiled, options)
        self.running: dict[int, Stay] = {}
        self.past: list[tuple[int, Stay]] = []
        """Every stay that has ended, by departure or by eviction; `end` is when it did."""
        self.steps: list[Step] = []

    def run(self, choose: Choose, before: Callable[[PodObservation], None] | None = None) -> None:
        """To the end; `before` sees each observation before the decision is asked for."""
        while (observation := self.world.next_decision()) is not None:
            self._note_departures()
            self.check(observation.pod)
            if before is not None:
                before(observation)
            legal = int((observation.refusals() == 0).sum())
            decision = choose(observation)
            self.world.apply(decision)
            self._note(observation, decision, legal)
            self.check(None)
        self._note_departures()
        self.check(None)

    @property
    def now(self) -> float:
        """The world's clock."""
        return float(self.world.run.clock[0])

    def believed(self) -> ClusterState:
        """The ledger as the plain-Python state that the reference filters understand."""
        state = ClusterState(self.compiled.workload.nodes)
        order = sorted(self.running, key=lambda pod: int(self.world.state.pod_rank[pod]))
        for place, pod in enumerate(order):
            stay = self.running[pod]
            devices = tuple(d for d in range(stay.devices.bit_length()) if stay.devices >> d & 1)
            state.restore(Running(self.compiled.workload.pods[pod], stay.node, stay.start, place, devices))
        waits = np.isin(self.world.run.status, (ACTIVE, BACKING_OFF, POOLED))
        state.waiting = [self.compiled.workload.pods[pod] for pod in np.flatnonzero(waits)]
        return state

    def check(self, deciding: int | None) -> None:
        """The world's sums, lists, statuses and measures agree with the ledger."""
        where = {pod: (stay.node, stay.devices) for pod, stay in self.running.items()}
        state = self.world.state
        check_sums(self.compiled, state, where)
        check_lists(self.compiled, state, where)
        check_devices(self.compiled, where)
        for pod, stay in self.running.items():
            assert float(state.pod_since[pod]) == stay.start == float(self.world.run.started[pod])
            assert int(state.pod_devices[pod]) == stay.devices
        self._check_statuses(deciding)
        self._check_use()

    def _check_statuses(self, deciding: int | None) -> None:
        """Every pod is in exactly one place, and that is where its status says it is."""
        run = self.world.run
        places: dict[int, set[int]] = {
            FUTURE: set(range(int(run.counters[NEXT_ARRIVAL]), run.status.size)),
            ACTIVE: members(run.active) | members(run.woken) | (set() if deciding is None else {deciding}),
            BACKING_OFF: members(run.backoff),
            POOLED: set(run.pool[: int(run.counters[POOL_SIZE])].tolist()),
            RUNNING: set(self.running),
        }
        statuses = run.status.tolist()
        for status, pods in places.items():
            assert pods == {pod for pod, each in enumerate(statuses) if each == status}, status
        ended = sum(status in (DONE, REJECTED, FAILED) for status in statuses)
        assert ended + sum(len(pods) for pods in places.values()) == len(statuses)
        assert members(run.running) == {p for p, stay in self.running.items() if math.isfinite(stay.end)}

    def _check_use(self) -> None:
        """What the measures call "in use" is what the running pods ask for."""
        columns, run = self.compiled.columns, self.world.run
        used = np.zeros(len(columns) + 1)
        for pod in self.running:
            used += self.asked(pod)
        np.testing.assert_allclose(run.used[:-1], used)
        np.testing.assert_allclose(run.used[-1], self.world.state.fragment.sum(), atol=1e-6)
        assert int(run.counters[ALIVE]) == len(self.running)

    def asked(self, pod: int) -> NDArray[np.float64]:
        """What a pod takes: the resource columns, then milli-GPU."""
        spec, columns = self.compiled.workload.pods[pod].spec, self.compiled.columns
        amounts = row(spec.requests, columns)
        amounts[columns.index(PODS)] = 1
        return np.array([*amounts, spec.gpu.count * spec.gpu.milli], dtype=np.float64)

    def _note_departures(self) -> None:
        """Whoever left since the last look left on time: it ran its whole work without a break."""
        run = self.world.run
        for pod, stay in list(self.running.items()):
            if int(run.status[pod]) == DONE:
                assert float(run.finished[pod]) == stay.end <= self.now
                self.past.append((pod, self.running.pop(pod)))
            else:
                assert stay.end >= self.now

    def _note(self, observation: PodObservation, decision: Decision, legal: int) -> None:
        pod, now = observation.pod, observation.now
        state = self.world.state
        victims = tuple(other for other in self.running if int(state.pod_node[other]) < 0)
        if isinstance(decision, Place | Preempt):
            pace = self.compiled.workload.nodes[decision.node].pace
            work = self.compiled.workload.pods[pod].duration / pace.speed
            end = now + pace.start_seconds + work
            for victim in victims:
                stay = self.running.pop(victim)
                assert stay.node == decision.node
                self.past.append((victim, Stay(stay.node, stay.devices, stay.start, now)))
            devices = int(state.pod_devices[pod])
            if isinstance(decision, Place) and decision.devices:
                assert devices == decision.devices
            self.running[pod] = Stay(decision.node, devices, now, end)
        self.steps.append(Step(pod, now, decision, legal, victims))

    def mean_use(self) -> NDArray[np.float64]:
        """Each resource column and milli-GPU, in use on average since the first arrival."""
        begin, total = self.compiled.workload.pods[0].arrival, np.zeros(len(self.compiled.columns) + 1)
        for pod, stay in (*self.past, *self.running.items()):
            total += self.asked(pod) * (min(stay.end, self.now) - stay.start)
        return total / (self.now - begin)


def members(heap: Heap) -> set[int]:
    """The pods in a heap."""
    return set(heap.order[: int(heap.size[0])].tolist())


def gpu_capacity(compiled: Compiled) -> int:
    """Milli-GPU of all nodes."""
    return sum(node.gpu_count for node in compiled.workload.nodes) * GPU_WHOLE


def frozen(world: PodsWorld) -> dict[str, NDArray[Any]]:
    """A copy of everything that a decision may change."""
    copies = {f"state.{name}": getattr(world.state, name).copy() for name in State._fields}
    for name in Run._fields:
        value = getattr(world.run, name)
        if name in ("active", "woken", "backoff", "running"):
            copies |= {f"run.{name}.{part}": getattr(value, part).copy() for part in Heap._fields}
        else:
            copies[f"run.{name}"] = value.copy()
    return copies


def assert_unchanged(before: dict[str, NDArray[Any]], after: dict[str, NDArray[Any]]) -> None:
    """Bit for bit the same."""
    changed = [name for name, value in before.items() if value.tobytes() != after[name].tobytes()]
    assert changed == [], changed
