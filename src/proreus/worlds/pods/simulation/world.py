"""The pods world: `next_decision`, `apply`, and the outcome when nothing is left to decide."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from proreus.contract.replay import OUTSIDE, Move, Stage
from proreus.contract.simulation import Look
from proreus.kernels.arrays import F64, I64
from proreus.kernels.structs import pack
from proreus.model.decision import Decision, Place, Preempt, meant, to_action
from proreus.model.errors import IllegalDecision, InputError
from proreus.model.workload import Workload
from proreus.worlds.pods.simulation import columns as c
from proreus.worlds.pods.simulation.columns import Heap, Run
from proreus.worlds.pods.simulation.kernel import (
    APPLIED,
    FINISHED,
    ILLEGAL_ACTION,
    ILLEGAL_DEVICES,
    ILLEGAL_PLACE,
    ILLEGAL_PREEMPT,
    advance,
    apply,
    waiting,
)
from proreus.worlds.pods.simulation.outcome import PodsOutcome, outcome_of, prices_of
from proreus.worlds.pods.simulation.rendering import levels_now, node_lines, shares_in_use, stage_of
from proreus.worlds.pods.simulation.ticked_runtime import LEAST_GPU_CPU
from proreus.worlds.pods.state.compile import Compiled, compile_workload, empty_state, new_scratch
from proreus.worlds.pods.state.observation import PodObservation

_MASKS = 2**62
"""Masks of devices are below this."""
_COMPLAINTS = {
    ILLEGAL_PLACE: "the node may not take the pod",
    ILLEGAL_DEVICES: "the devices do not match the request or have too little left",
    ILLEGAL_PREEMPT: "evicting lower-priority pods there is not allowed or does not help",
    ILLEGAL_ACTION: "there is no such action",
}


@dataclass(frozen=True)
class PodsOptions:
    """How the pods world treats the pods it cannot place."""

    drop_failures: bool = False
    """A pod that no node can take now is dropped (the openb experiment) and not kept waiting."""
    requeue_evicted: bool = True
    """A preempted pod comes back to the queue and starts over, as its controller would make it."""
    skip_backoff_when_idle: bool = True
    """Kubernetes 1.33 and later: an idle scheduler takes woken pods before their back-off has ended."""
    attempt_limit: int = 100
    """A pod after so many attempts has failed if it is delayed though a node could take it; 0: no limit."""


class PodsWorld:
    """One run: ask `next_decision` until it returns None, answering each with `apply`."""

    def __init__(self, workload: Workload | Compiled, options: PodsOptions | None = None) -> None:
        self.compiled = workload if isinstance(workload, Compiled) else compile_workload(workload)
        self.options = options or PodsOptions()
        self.cluster = self.compiled.cluster
        self.state = empty_state(self.cluster)
        self.scratch = new_scratch(self.cluster)
        pods = self.compiled.workload.pods
        self.run = new_run(
            self.compiled,
            self.options,
            float(self.state.fragment.sum()),
            arrival=np.array([pod.arrival for pod in pods], dtype=np.float64),
            work=np.array([pod.duration for pod in pods], dtype=np.float64),
            bound=_bound(self.compiled.workload),
        )
        self._pod = FINISHED
        self._last: Move | None = None
        if self.compiled.workload.ticked:
            _check_ticked(self.compiled)

    def next_decision(self) -> PodObservation | None:
        """Run until a pod needs a decision; None when the run is over."""
        if self._pod == FINISHED:
            self._pod = advance(self.cluster, self.state, self.run)
        if self._pod == FINISHED:
            return None
        return PodObservation(
            self.compiled,
            self.state,
            self.scratch,
            self._pod,
            float(self.run.clock[0]),
            waiting(self.run),
        )

    def apply(self, decision: Decision | int, /) -> None:
        """Carry out the decision about the pod last handed out; IllegalDecision leaves it undecided."""
        if self._pod == FINISHED:
            raise IllegalDecision("no pod is waiting for a decision")
        nodes = len(self.compiled.workload.nodes)
        decision = meant(decision, nodes)
        devices = decision.devices if isinstance(decision, Place) else 0
        if not 0 <= devices < _MASKS:
            raise IllegalDecision(f"{decision}: the devices are no mask of GPUs")
        choice = (to_action(decision, nodes), devices)
        answer = apply(self.cluster, self.state, self.run, self.scratch, self._pod, choice)
        name = self.compiled.workload.pods[self._pod].name
        if answer != APPLIED:
            raise IllegalDecision(f"{decision} for pod {name}: {_COMPLAINTS[answer]}")
        self._pod = FINISHED
        self._last = Move(name, OUTSIDE, decision.node) if isinstance(decision, Place | Preempt) else None

    def subject(self) -> str:
        """The pod that needs a decision."""
        return "" if self._pod == FINISHED else self.compiled.workload.pods[self._pod].name

    def outcome(self) -> PodsOutcome:
        """What the run has come to so far."""
        return outcome_of(self.compiled, self.run)

    def screen(self) -> list[str]:
        """The nodes as they stand."""
        counters = self.run.counters
        head = f"{self.run.clock[0]:,.0f} s: {counters[c.PLACEMENTS]:,} placed, {waiting(self.run):,} waiting"
        if self._last is not None:
            head += f"; {self._last.item} → {self.compiled.workload.nodes[self._last.target].name}"
        if counters[c.EVICTIONS]:
            head += f"; {counters[c.EVICTIONS]:,} evicted so far"
        chosen = -1 if self._last is None else self._last.target
        return [head, *node_lines(self.compiled, self.state, chosen)]

    def stage(self) -> Stage:
        """Nodes with gauges."""
        return stage_of(self.compiled)

    def look(self) -> Look:
        """The nodes now, with the last placement."""
        shares = shares_in_use(self.cluster.nodes, self.state)
        moves = () if self._last is None else (self._last,)
        self._last = None
        placed = int(self.run.counters[c.PLACEMENTS])
        levels = levels_now(shares, self.stage())
        return Look(float(self.run.clock[0]), placed, {}, shares.max(axis=1), levels, moves)

    def told(self, before: Look | None, now: Look) -> str:
        """So many placements."""
        return f"{now.count:,} placed"

    def facts(self) -> tuple[str, ...]:
        """Nodes and pods."""
        workload = self.compiled.workload
        return f"{len(workload.nodes):,} nodes", f"{len(workload.pods):,} pods"


def _check_ticked(compiled: Compiled) -> None:
    """Refuse pods that would never end in ticked time."""
    for pod in compiled.workload.pods:
        cpu = max(pod.spec.cpu_limit, pod.spec.requests.cpu)
        least = LEAST_GPU_CPU if pod.spec.gpu.count else 0
        if not math.isfinite(pod.duration) or cpu <= least:
            raise InputError(
                f"pod {pod.name} would never end in ticked time: "
                f"it needs a finite duration and more than {least}m CPU"
            )


def _bound(workload: Workload) -> I64:
    """int64[P]: the node of every pod that is on one when it comes, -1 for the others."""
    places = {node.name: n for n, node in enumerate(workload.nodes)}
    return np.array([places[pod.node] if pod.node else -1 for pod in workload.pods], dtype=np.int64)


def new_run(
    compiled: Compiled,
    options: PodsOptions,
    fragment: float,
    *,
    arrival: F64,
    work: F64,
    bound: I64 | None = None,
) -> Run:
    """A run before its first arrival, on a cluster with so much fragmentation; arrival, work: float64[P].

    bound: int64[P], see `Run`; None where every pod is to be placed.
    """
    count, sums = len(arrival), len(compiled.columns) + 2
    used = np.zeros(sums)
    used[-1] = fragment
    counters = np.zeros(c.COUNTERS, dtype=np.int64)
    counters[c.STRIDE] = 1
    return pack(
        Run(
            arrival=arrival,
            work=work,
            bound=np.full(count, -1, dtype=np.int64) if bound is None else bound,
            status=np.zeros(count, dtype=np.int8),
            attempts=np.zeros(count, dtype=np.int64),
            queued=np.zeros(count),
            ticket=np.zeros(count, dtype=np.int64),
            started=np.full(count, np.nan),
            finished=np.full(count, np.nan),
            evicted=np.zeros(count, dtype=np.int64),
            where=np.full(count, -1, dtype=np.int64),
            active=_new_heap(count),
            woken=_new_heap(count),
            backoff=_new_heap(count),
            running=_new_heap(count),
            pool=np.zeros(count, dtype=np.int64),
            barren=np.full(len(compiled.specs), -1, dtype=np.int64),
            clock=np.array([arrival[0] if count else 0.0]),
            used=used,
            integral=np.zeros(sums),
            peak=used.copy(),
            price=prices_of(compiled.cluster.nodes),
            paid=np.zeros(2),
            arrived=np.zeros(1),
            presence=np.zeros(1),
            samples=np.zeros((c.SAMPLE_ROWS, c.SAMPLE_SUMS + sums)),
            heat=np.zeros((c.SAMPLE_ROWS // c.HEAT_EVERY, len(compiled.workload.nodes)), dtype=np.float32),
            countdown=np.zeros(count),
            remaining=np.full(count, np.nan),
            counters=counters,
            options=np.array(
                [
                    options.drop_failures,
                    options.requeue_evicted,
                    options.skip_backoff_when_idle,
                    options.attempt_limit,
                    compiled.workload.ticked,
                ],
                dtype=np.int64,
            ),
        )
    )


def _new_heap(count: int) -> Heap:
    return Heap(
        first=np.zeros(count),
        second=np.zeros(count),
        tie=np.zeros(count, dtype=np.int64),
        order=np.zeros(count, dtype=np.int64),
        slot=np.full(count, -1, dtype=np.int64),
        size=np.zeros(1, dtype=np.int64),
    )
