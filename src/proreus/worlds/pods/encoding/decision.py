"""A whole decision of the pods world as arrays: every legal node, the pod and the cluster around it.

`encoding.pair` describes one (pod, node) pair; here the pairs of one moment are put together, with a context
that is the same for every node. Environments, learned policies and services read decisions through this.
"""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F32, F64, I64, Bool
from proreus.kernels.jit import compiled
from proreus.model.resources import COL_CPU, COL_MEMORY, GIB
from proreus.worlds.pods.encoding.context import (
    CONTEXT_FEATURES,
    context_scale,
    encode_choice,
    encode_context,
)
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, cluster_scale, encode_pair
from proreus.worlds.pods.state.columns import Cluster, State
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.observation import PodObservation

LARGEST_FEATURE = 1e3
"""Features are clipped to plus and minus this: far outside what they should be, and finite."""

_DOCUMENT_CPU = 100_000.0  # milli-CPU and bytes that the k8s simulator measures a task in
_DOCUMENT_MEMORY = float(GIB)


def legal_actions(observation: PodObservation, *, work_conserving: bool) -> Bool:
    """bool[2N + 2]: the actions to choose from; a work-conserving learner never delays or rejects a pod that
    a node can take."""
    mask = observation.action_mask()
    nodes = len(observation.compiled.workload.nodes)
    if work_conserving and mask[:nodes].any():
        mask[2 * nodes :] = False
    return mask


class PodsEncoder:
    """Encodes the decisions of one compiled workload."""

    def __init__(self, compiled_workload: Compiled) -> None:
        self._scale = cluster_scale(compiled_workload)
        self._context_scale = context_scale(compiled_workload)

    def nodes(self, observation: PodObservation, mask: Bool) -> tuple[F32, I64]:
        """float32[N, pair features], zero where the pod may not go, and the devices meant on each node.

        `mask` is the observation's action mask. Placing the pod on other devices than these would not lead
        to what the features describe.
        """
        count = len(observation.compiled.workload.nodes)
        features = np.zeros((count, len(PAIR_FEATURES)))
        devices = np.zeros(count, dtype=np.int64)
        fill_pairs(
            observation.cluster,
            observation.state,
            self._scale,
            observation.pod_class,
            (mask, features, devices),
        )
        return np.clip(features, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.float32), devices

    def context(self, observation: PodObservation, mask: Bool) -> F32:
        """float32[context features] of the pod and the cluster as a whole: see `encoding.context`."""
        count = len(observation.compiled.workload.nodes)
        context = np.zeros(len(CONTEXT_FEATURES), dtype=np.float32)
        encode_context(
            observation.cluster,
            observation.state,
            self._context_scale,
            observation.pod_class,
            observation.waiting,
            context,
        )
        placements, preemptions = int(mask[:count].sum()), int(mask[count : 2 * count].sum())
        preempting = placements == 0 and preemptions > 0
        encode_choice(count, preemptions if preempting else placements, preempting, context)
        return np.clip(context, -LARGEST_FEATURE, LARGEST_FEATURE).astype(np.float32)


@compiled
def fill_pairs(cluster: Cluster, state: State, scale: F64, c: int, into: tuple[Bool, F64, I64]) -> None:
    """into: (action mask, float64[N, features], int64[N] device masks); the latter filled for legal nodes."""
    mask, features, devices = into
    for n in range(features.shape[0]):
        if mask[n]:
            devices[n] = encode_pair(cluster, state, scale, c, n, features[n])


def simulator_vector(observation: PodObservation) -> F64:
    """float64[2N + 2], the state as the k8s simulator sends it.

    Per node the shares of CPU and memory in use, then the pod's milli-CPU / 100,000 and bytes / 1 GiB.
    """
    columns = [COL_CPU, COL_MEMORY]
    allocatable = observation.cluster.nodes.allocatable[:, columns]
    used = allocatable - observation.state.free[:, columns]
    request = observation.cluster.classes.request[observation.pod_class]
    shares = used / np.maximum(allocatable, 1)
    task = (request[COL_CPU] / _DOCUMENT_CPU, request[COL_MEMORY] / _DOCUMENT_MEMORY)
    return np.concatenate((shares.ravel(), task))
