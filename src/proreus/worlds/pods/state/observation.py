"""What a policy sees when it must decide about one pod: the cluster now, the pod, and what is legal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from proreus.kernels.arrays import I8, Bool
from proreus.kernels.jit import compiled
from proreus.model.pod import Pod
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.filters import CURABLE
from proreus.worlds.pods.state.legality import prepare, refusal
from proreus.worlds.pods.state.victims import choose_victims


@dataclass(frozen=True)
class PodObservation:
    """The moment of one decision. The arrays are the live state: read them, never write them."""

    compiled: Compiled
    state: State
    scratch: Scratch
    pod: int
    now: float
    waiting: int = 0
    """Other pods that wait for a node."""

    @property
    def cluster(self) -> Cluster:
        """The columns that do not change."""
        return self.compiled.cluster

    @cached_property
    def pod_class(self) -> int:
        """The class of the pod."""
        return int(self.cluster.pod_class[self.pod])

    @property
    def subject(self) -> Pod:
        """The pod itself."""
        return self.compiled.workload.pods[self.pod]

    def refusals(self) -> I8:
        """int8[N]: 0 where the pod may go, else the code of the filter that refuses."""
        codes = np.zeros(len(self.compiled.workload.nodes), dtype=np.int8)
        fill_refusals(self.cluster, self.state, self.pod_class, self.scratch, codes)
        return codes

    def refusal(self, node: int) -> int:
        """0 where the pod may go to `node`, else the code of the filter that refuses."""
        return int(prepared_refusal(self.cluster, self.state, self.pod_class, node, self.scratch))

    def action_mask(self) -> Bool:
        """bool[2N + 2]: which flat actions are legal now; delay and reject always are."""
        mask = np.ones(2 * len(self.compiled.workload.nodes) + 2, dtype=np.bool_)
        fill_mask(self.cluster, self.state, self.pod_class, self.scratch, mask)
        return mask

    def victims(self, node: int) -> tuple[list[int], int] | None:
        """(pods that preemption on `node` would evict, budgets violated); None where it does not help."""
        cluster, state, scratch, c = self.cluster, self.state, self.scratch, self.pod_class
        prepare(cluster, state, c, scratch)
        if not CURABLE[refusal(cluster, state, c, node, scratch)]:
            return None
        count, violations = choose_victims(cluster, state, c, node, scratch)
        return None if count < 0 else (scratch.pods[:count].tolist(), violations)


@compiled
def prepared_refusal(cluster: Cluster, state: State, c: int, n: int, scratch: Scratch) -> int:
    """The refusal of node n for class c, from scratch."""
    prepare(cluster, state, c, scratch)
    return refusal(cluster, state, c, n, scratch)


@compiled
def fill_refusals(cluster: Cluster, state: State, c: int, scratch: Scratch, codes: I8) -> None:
    """codes: int8[N], filled with the refusal of every node for class c."""
    prepare(cluster, state, c, scratch)
    for n in range(codes.shape[0]):
        codes[n] = refusal(cluster, state, c, n, scratch)


@compiled
def fill_mask(cluster: Cluster, state: State, c: int, scratch: Scratch, mask: Bool) -> None:
    """mask: bool[2N + 2], the first 2N entries filled: placements, then preemptions."""
    nodes = (mask.shape[0] - 2) // 2
    prepare(cluster, state, c, scratch)
    for n in range(nodes):
        code = refusal(cluster, state, c, n, scratch)
        mask[n] = code == 0
        mask[nodes + n] = (
            code != 0
            and CURABLE[code]
            and cluster.classes.may_preempt[c]
            and choose_victims(cluster, state, c, n, scratch)[0] > 0
        )
