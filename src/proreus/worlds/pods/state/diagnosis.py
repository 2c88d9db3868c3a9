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
from proreus.worlds.pods.state.legality import prepare, refusal
from proreus.worlds.pods.state.observation import PodObservation
from proreus.worlds.pods.state.victims import shift_lower

NO_VICTIMS, UNHELPFUL = -1, -2
"""Of a node that preemption looks at: nobody there is of lower priority; evicting cures no such refusal."""


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
