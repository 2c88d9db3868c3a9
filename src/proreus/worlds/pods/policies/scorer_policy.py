"""The trained scorer network as a policy: lists the legal nodes, scores them, takes the best."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F32, F64, I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable
from proreus.model.decision import Decision, Delay, Place, Preempt
from proreus.policies.protocol import Explanation
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.encoding.rows import Encoder, copy_rows, list_choice, new_encoder, row_devices
from proreus.worlds.pods.policies.explanation import explained
from proreus.worlds.pods.policies.scorer import ScorerScratch, forward, new_scorer_scratch
from proreus.worlds.pods.state.columns import Cluster, Scratch, State
from proreus.worlds.pods.state.observation import PodObservation


@packable
class Bidding(NamedTuple):
    """The network bound to one run."""

    params: F32
    encoder: Encoder
    work: ScorerScratch
    nodes: I64  # [N] the node of each row
    rows: F32  # [N, F]
    context: F32  # [G]


@dataclass
class ScorerPolicy:
    """Greedy: the legal node with the highest bid; evicts only where no node can take the pod as it is."""

    name: str
    params: F32
    preempts: bool = True
    _bound: tuple[State, Bidding] | None = field(default=None, init=False, repr=False)

    def fresh(self, seed: int) -> ScorerPolicy:
        """The same network, for another run; it draws nothing."""
        return replace(self)

    def _bidding(self, observation: PodObservation) -> Bidding:
        if self._bound is None or self._bound[0] is not observation.state:
            nodes = len(observation.compiled.workload.nodes)
            bidding = pack(
                Bidding(
                    params=self.params,
                    encoder=new_encoder(observation.compiled),
                    work=new_scorer_scratch(nodes),
                    nodes=np.zeros(nodes, dtype=np.int64),
                    rows=np.zeros((nodes, len(PAIR_FEATURES)), dtype=np.float32),
                    context=np.zeros(len(CONTEXT_FEATURES), dtype=np.float32),
                )
            )
            self._bound = (observation.state, bidding)
        return self._bound[1]

    def decide(self, observation: PodObservation) -> Decision:
        """The node with the highest bid."""
        node, preempting, devices = best_bid(
            observation.cluster,
            observation.state,
            observation.scratch,
            self._bidding(observation),
            (observation.pod_class, observation.waiting),
        )
        if node < 0 or (preempting and not self.preempts):
            return Delay()
        return Preempt(node) if preempting else Place(node, devices)

    def explain(self, observation: PodObservation) -> Explanation:
        """The bids of all legal nodes, and why the others were not asked."""
        decision = self.decide(observation)
        bids = zip(*(array.tolist() for array in self.bids(observation)), strict=True)
        note = "Bids of a trained network; equal bids go to the first in order."
        return explained(self, observation, decision, {n: {"bid": bid} for n, bid in bids}, note)

    def bids(self, observation: PodObservation) -> tuple[I64, F64]:
        """The nodes that could be chosen, with their bids."""
        bidding = self._bidding(observation)
        rows, _ = list_bids(
            observation.cluster,
            observation.state,
            observation.scratch,
            bidding,
            (observation.pod_class, observation.waiting),
        )
        return bidding.nodes[:rows].copy(), bidding.work.logits[:rows].astype(np.float64)


@compiled
def list_bids(
    cluster: Cluster, state: State, scratch: Scratch, bidding: Bidding, pod: tuple[int, int]
) -> tuple[int, bool]:
    """(rows, whether they preempt); the bids are left in `work.logits`. pod: its class, pods waiting."""
    into = (bidding.nodes, bidding.context)
    rows, preempting = list_choice(cluster, state, scratch, bidding.encoder, pod, into)
    if rows == 0:
        return 0, False
    copy_rows(bidding.encoder, pod[0], bidding.nodes, rows, bidding.rows)
    forward(bidding.params, bidding.rows[:rows], (rows, preempting), bidding.context, bidding.work)
    return rows, preempting


@compiled
def best_bid(
    cluster: Cluster, state: State, scratch: Scratch, bidding: Bidding, pod: tuple[int, int]
) -> tuple[int, bool, int]:
    """(node or -1, whether by preemption, device mask) of the highest bid."""
    rows, preempting = list_bids(cluster, state, scratch, bidding, pod)
    if rows == 0:
        return -1, False, 0
    best = 0
    for k in range(1, rows):
        if bidding.work.logits[k] > bidding.work.logits[best]:
            best = k
    n = bidding.nodes[best]
    return n, preempting, 0 if preempting else row_devices(bidding.encoder, pod[0], n)
