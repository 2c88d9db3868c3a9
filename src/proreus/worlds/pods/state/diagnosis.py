"""Why no node takes a pod, as kube-scheduler tells it: which resources are short, and what would be wrong
with a node once every pod of lower priority had left it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I8, Bool
from proreus.kernels.jit import compiled
from proreus.model.pod import GPU_WHOLE
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.devices import devices_fit
from proreus.worlds.pods.state.filters import CURABLE, RESOURCES, RESOURCES_NEVER
from proreus.worlds.pods.state.legality import has_relations, local_refusal, prepare, refusal
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.victims import shift_lower

NO_VICTIMS, UNHELPFUL = -1, -2
"""Of a node that preemption looks at: nobody there is of lower priority; evicting cures no such refusal."""

_FEW_CHANGES = 256
"""After more of them all nodes are looked at anew."""
_MOST_CLASSES = 64
"""Of pods that are remembered, the longest known first to go: some kilobytes each."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong with each node."""

    codes: I8
    """[N] the first filter that refuses; after evictions also NO_VICTIMS or UNHELPFUL."""
    short: Bool
    """[N, R + 1] resources that a node refused for its resources lacks; the last column: whole GPUs."""


def diagnose(observation: PodObservation) -> Diagnosis:
    """As the nodes are now."""
    diagnosis = _empty(observation)
    fill_diagnosis(
        observation.cluster,
        observation.state,
        observation.pod_class,
        observation.scratch,
        (diagnosis.codes, diagnosis.short),
    )
    return diagnosis


@dataclass(slots=True)
class _Remembered:
    """The diagnosis of a class, as of a number of changes."""

    diagnosis: Diagnosis
    epoch: int
    seen: int


class DiagnosisMemory:
    """`diagnose` that looks only at nodes that changed since it was last asked of the same class.

    It reads the ring `State.changed`, as policies' caches do (see `state.open.cluster`). The very same value
    is returned as long as it holds, by which whoever words it can tell. Classes whose pods depend on pods of
    other nodes are not remembered.
    """

    def __init__(self) -> None:
        self._state: State | None = None
        self._remembered: dict[int, _Remembered] = {}

    def diagnose(self, observation: PodObservation) -> Diagnosis:
        """As the nodes are now."""
        cluster, state, c = observation.cluster, observation.state, observation.pod_class
        if state is not self._state:
            self._state = state
            self._remembered.clear()
        if has_relations(cluster, c):
            return diagnose(observation)
        now, epoch = state.counts.item(0), cluster.classes.epoch.item(c)
        remembered = self._remembered.get(c)
        if (
            remembered is None
            or remembered.epoch != epoch
            or not 0 <= now - remembered.seen <= min(_FEW_CHANGES, len(state.changed))
            or remembered.diagnosis.short.shape[1] != len(observation.compiled.columns) + 1
        ):
            self._remembered.pop(c, None)
            if len(self._remembered) >= _MOST_CLASSES:
                del self._remembered[next(iter(self._remembered))]
            self._remembered[c] = _Remembered(diagnose(observation), epoch, now)
            return self._remembered[c].diagnosis
        known = remembered.diagnosis
        if not still_true(cluster, state, c, known.codes, remembered.seen):
            remembered.diagnosis = Diagnosis(known.codes.copy(), known.short.copy())
            arrays = (remembered.diagnosis.codes, remembered.diagnosis.short)
            refresh_diagnosis(cluster, state, c, arrays, remembered.seen)
        remembered.seen = now
        return remembered.diagnosis


def diagnose_evicted(observation: PodObservation) -> Diagnosis:
    """Of each node without its pods of lower priority, all others as they are: preemption's dry run."""
    diagnosis = _empty(observation)
    fill_diagnosis_evicted(
        observation.cluster,
        observation.state,
        observation.pod_class,
        observation.scratch,
        (diagnosis.codes, diagnosis.short),
    )
    return diagnosis


@compiled
def fill_diagnosis(cluster: Cluster, state: State, c: int, scratch: Scratch, arrays: tuple[I8, Bool]) -> None:
    """arrays: those of a Diagnosis, of zeros."""
    codes, short = arrays
    prepare(cluster, state, c, scratch)
    for n in range(codes.shape[0]):
        codes[n] = refusal(cluster, state, c, n, scratch)
        if codes[n] == RESOURCES or codes[n] == RESOURCES_NEVER:
            _fill_short(cluster, state, c, n, short[n])


@compiled
def still_true(cluster: Cluster, state: State, c: int, codes: I8, seen: int) -> bool:
    """Whether all nodes that changed since so many changes are refused as before, and none for its resources:
    of those the missing ones may be others. Of a class without relations."""
    ring = state.changed.shape[0]
    for k in range(seen, state.counts[0]):
        n = state.changed[k % ring]
        code = local_refusal(cluster, state, c, n)
        if code != codes[n] or code in (RESOURCES, RESOURCES_NEVER):
            return False
    return True


@compiled
def refresh_diagnosis(cluster: Cluster, state: State, c: int, arrays: tuple[I8, Bool], seen: int) -> None:
    """arrays: those of a Diagnosis as of so many changes. Of a class without relations."""
    codes, short = arrays
    ring = state.changed.shape[0]
    for k in range(seen, state.counts[0]):
        n = state.changed[k % ring]
        codes[n] = local_refusal(cluster, state, c, n)
        short[n] = False
        if codes[n] == RESOURCES or codes[n] == RESOURCES_NEVER:
            _fill_short(cluster, state, c, n, short[n])


@compiled
def fill_diagnosis_evicted(
    cluster: Cluster, state: State, c: int, scratch: Scratch, arrays: tuple[I8, Bool]
) -> None:
    """arrays: those of a Diagnosis, of zeros. The state is as before when this returns."""
    codes, short = arrays
    prepare(cluster, state, c, scratch)
    for n in range(codes.shape[0]):
        if not CURABLE[refusal(cluster, state, c, n, scratch)]:
            codes[n] = UNHELPFUL
            continue
        if shift_lower(cluster, state, scratch, c, (n, -1)) == 0:
            codes[n] = NO_VICTIMS
            continue
        codes[n] = refusal(cluster, state, c, n, scratch)
        if codes[n] == RESOURCES or codes[n] == RESOURCES_NEVER:
            _fill_short(cluster, state, c, n, short[n])
        shift_lower(cluster, state, scratch, c, (n, 1))


@compiled
def _fill_short(cluster: Cluster, state: State, c: int, n: int, short: Bool) -> None:
    """short: bool[R + 1], what node n has too little of for class c."""
    classes = cluster.classes
    resources = short.shape[0] - 1  # those that have a name: columns behind are spare
    for r in range(resources):
        short[r] = classes.request[c, r] > max(state.free[n, r], 0)
    num, milli = classes.gpu_num[c], classes.gpu_milli[c]
    # Whole devices are a resource like any other to kube-scheduler; shares are not.
    short[resources] = (
        num > 0
        and milli == GPU_WHOLE
        and not devices_fit(state.gpu_left[n], cluster.nodes.gpu_count[n], num, milli)
    )


def _empty(observation: PodObservation) -> Diagnosis:
    nodes, resources = len(observation.compiled.workload.nodes), len(observation.compiled.columns)
    return Diagnosis(np.zeros(nodes, np.int8), np.zeros((nodes, resources + 1), np.bool_))
