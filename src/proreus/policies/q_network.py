"""The value of every action of a decision, for clusters of any size, and the policy that takes the best.

A node is an agent that bids: one small network with shared weights scores each (pod, node) pair, knowing the
pod, the cluster and a summary of the other nodes. `learning.ddqn` trains it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from proreus.cluster.compile import Compiled
from proreus.cluster.filters import FILTERS
from proreus.cluster.observation import PodObservation
from proreus.encoding.context import CONTEXT_FEATURES, F32
from proreus.encoding.pods import PAIR_FEATURES
from proreus.encoding.pods_observation import PodsEncoder, legal_actions
from proreus.model.decision import Decision, Place, from_action
from proreus.policies.protocol import Explanation, NodeVerdict


class QNetwork(nn.Module):
    """Dueling: Q(a) = V + A(a) - mean of A over the legal actions."""

    def __init__(
        self,
        hidden: int = 64,
        node_features: int = len(PAIR_FEATURES),
        context_features: int = len(CONTEXT_FEATURES),
    ) -> None:
        super().__init__()
        self.of_node = nn.Linear(node_features, hidden)
        self.of_context = nn.Linear(context_features, hidden, bias=False)
        self.deeper = nn.Linear(hidden, hidden)
        self.summary = nn.Linear(2 * hidden + context_features, hidden)
        self.value = nn.Linear(hidden, 1)
        self.waiting = nn.Linear(hidden, 2)  # delay, reject
        self.bid_of_node = nn.Linear(hidden, hidden)
        self.bid_of_summary = nn.Linear(hidden, hidden, bias=False)
        self.bid = nn.Linear(hidden, 2)  # place, preempt

    def forward(self, nodes: Tensor, context: Tensor, mask: Tensor) -> Tensor:
        """float[B, N, F], float[B, G], bool[B, 2N + 2] -> float[B, 2N + 2].

        Values of illegal actions mean nothing: leave them out with `best_legal`.
        """
        count = nodes.shape[1]
        found = torch.relu(self.of_node(nodes) + self.of_context(context).unsqueeze(1))
        found = torch.relu(self.deeper(found))
        legal = mask[:, :count].unsqueeze(2).to(found.dtype)
        offered = found * legal  # not negative, so 0 is the maximum over no nodes
        mean = offered.sum(dim=1) / legal.sum(dim=1).clamp(min=1.0)
        summary = torch.relu(self.summary(torch.cat((mean, offered.amax(dim=1), context), dim=1)))
        bids = torch.relu(self.bid_of_node(found) + self.bid_of_summary(summary).unsqueeze(1))
        place, preempt = self.bid(bids).unbind(dim=2)
        advantage = torch.cat((place, preempt, self.waiting(summary)), dim=1)
        allowed = mask.to(advantage.dtype)
        usual = (advantage * allowed).sum(dim=1, keepdim=True) / allowed.sum(dim=1, keepdim=True).clamp(
            min=1.0
        )
        values: Tensor = self.value(summary) + advantage - usual
        return values


def best_legal(values: Tensor, mask: Tensor) -> Tensor:
    """int64[B]: the legal action of highest value, the first of equals."""
    return values.masked_fill(~mask, -torch.inf).argmax(dim=1)


@dataclass
class QPolicy:
    """Takes the legal action that a network values most."""

    network: QNetwork
    name: str = "ddqn"
    work_conserving: bool = False
    """As in training: what was masked there has no meaningful value here."""
    _encoder: tuple[Compiled, PodsEncoder] | None = field(default=None, init=False, repr=False)

    def decide(self, observation: PodObservation) -> Decision:
        """The most valued legal action, on the devices that its features describe."""
        return self._look(observation)[0]

    def explain(self, observation: PodObservation) -> Explanation:
        """The decision and the value of each node."""
        decision, values = self._look(observation)
        verdicts = []
        for n, code in enumerate(observation.refusals().tolist()):
            plugin, says, _ = FILTERS.get(code, ("", "", False))
            scores = {} if code else {"value": float(values[n])}
            verdicts.append(
                NodeVerdict(
                    node=observation.compiled.workload.nodes[n].name,
                    refused_by=f"{plugin}: {says}" if code else "",
                    scores=scores,
                    total=sum(scores.values()),
                )
            )
        note = (
            f"Value of delay {values[-2]:.4g}, of rejection {values[-1]:.4g}; equal values go to the first."
        )
        return Explanation(self.name, observation.subject.name, decision, tuple(verdicts), note)

    def _look(self, observation: PodObservation) -> tuple[Decision, F32]:
        """(decision, float32[2N + 2] values)."""
        if self._encoder is None or self._encoder[0] is not observation.compiled:
            self._encoder = (observation.compiled, PodsEncoder(observation.compiled))
        encoder = self._encoder[1]
        mask = legal_actions(observation, work_conserving=self.work_conserving)
        features, devices = encoder.nodes(observation, mask)
        context = encoder.context(observation, mask)
        allowed = torch.from_numpy(mask).unsqueeze(0)
        with torch.inference_mode():
            values = self.network(
                torch.from_numpy(features).unsqueeze(0), torch.from_numpy(context).unsqueeze(0), allowed
            )
            action = int(best_legal(values, allowed))
        decision = from_action(action, len(observation.compiled.workload.nodes))
        if isinstance(decision, Place):
            decision = Place(decision.node, int(devices[decision.node]))
        return decision, np.asarray(values[0].numpy(), dtype=np.float32)
