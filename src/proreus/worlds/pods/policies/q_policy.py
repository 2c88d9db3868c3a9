"""Policies over the network that values actions: the most valued legal action is taken."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import torch

from proreus.kernels.arrays import F32, F64, I64
from proreus.model.decision import Decision, Delay, Place, Preempt, from_action
from proreus.policies.networks.q_network import QNetwork, best_legal
from proreus.policies.networks.torch_threads import few_torch_threads
from proreus.policies.protocol import Explanation
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.decision import PodsEncoder, legal_actions
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES
from proreus.worlds.pods.encoding.rows import Encoder, copy_rows, list_choice, new_encoder, row_devices
from proreus.worlds.pods.policies.explanation import explained
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.state.observation import PodObservation


@dataclass
class QPolicy:
    """Any legal action, as `proreus/Pods-v0` offers them: place, preempt, delay, reject."""

    network: QNetwork
    name: str = "ddqn"
    work_conserving: bool = False
    """As in training: what was masked there has no meaningful value here."""
    _encoder: tuple[Compiled, PodsEncoder] | None = field(default=None, init=False, repr=False)

    def fresh(self, seed: int) -> QPolicy:
        """The same network, for another run; it draws nothing."""
        return replace(self)

    def decide(self, observation: PodObservation) -> Decision:
        """The most valued legal action, on the devices that its features describe."""
        return self._look(observation)[0]

    def explain(self, observation: PodObservation) -> Explanation:
        """The decision and the value of each node."""
        decision, values = self._look(observation)
        note = (
            f"Value of delay {values[-2]:.4g}, of rejection {values[-1]:.4g}; equal values go to the first."
        )
        legal = np.flatnonzero(observation.refusals() == 0).tolist()
        return explained(self, observation, decision, {n: {"value": float(values[n])} for n in legal}, note)

    def bids(self, observation: PodObservation) -> tuple[I64, F64]:
        """The nodes that may take the pod, with their values."""
        values = self._look(observation)[1]
        legal = np.flatnonzero(observation.refusals() == 0)
        return legal, values[legal].astype(np.float64)

    def _look(self, observation: PodObservation) -> tuple[Decision, F32]:
        """(decision, float32[2N + 2] values)."""
        if self._encoder is None or self._encoder[0] is not observation.compiled:
            self._encoder = (observation.compiled, PodsEncoder(observation.compiled))
        encoder = self._encoder[1]
        mask = legal_actions(observation, work_conserving=self.work_conserving)
        features, devices = encoder.nodes(observation, mask)
        context = encoder.context(observation, mask)
        allowed = torch.from_numpy(mask).unsqueeze(0)
        with few_torch_threads(), torch.inference_mode():
            values = self.network(
                torch.from_numpy(features).unsqueeze(0), torch.from_numpy(context).unsqueeze(0), allowed
            )
            action = int(best_legal(values, allowed))
        decision = from_action(action, len(observation.compiled.workload.nodes))
        if isinstance(decision, Place):
            decision = Place(decision.node, int(devices[decision.node]))
        return decision, np.asarray(values[0].numpy(), dtype=np.float32)


@dataclass
class BiddingQPolicy:
    """The choices that lanes leave to a learner: the most valued node; evicts only where no node can take the
    pod as it is, and waits only where eviction does not help either."""

    name: str
    network: QNetwork
    preempts: bool = True
    _encoder: tuple[object, Encoder] | None = field(default=None, init=False, repr=False)

    def fresh(self, seed: int) -> BiddingQPolicy:
        """The same network, for another run; it draws nothing."""
        return replace(self)

    def decide(self, observation: PodObservation) -> Decision:
        """The most valued node."""
        return self._look(observation)[0]

    def explain(self, observation: PodObservation) -> Explanation:
        """The values of all nodes that could be chosen, and why the others could not."""
        decision, values = self._look(observation)
        note = "Values of a trained network; equal values go to the first in order."
        scores = {n: {"value": value} for n, value in values.items()}
        return explained(self, observation, decision, scores, note)

    def bids(self, observation: PodObservation) -> tuple[I64, F64]:
        """The nodes that could be chosen, with their values."""
        values = self._look(observation)[1]
        return np.array(list(values), dtype=np.int64), np.array(list(values.values()), dtype=np.float64)

    def _look(self, observation: PodObservation) -> tuple[Decision, dict[int, float]]:
        """(decision, node -> value)."""
        # Its cache counts the changes of one run's state: another run needs another encoder.
        if self._encoder is None or self._encoder[0] is not observation.state:
            self._encoder = (observation.state, new_encoder(observation.compiled))
        encoder, c = self._encoder[1], observation.pod_class
        nodes = np.zeros(len(observation.compiled.workload.nodes), dtype=np.int64)
        context = np.zeros(len(CONTEXT_FEATURES), dtype=np.float32)
        pod, into = (c, observation.waiting), (nodes, context)
        rows, preempting = list_choice(
            observation.cluster, observation.state, observation.scratch, encoder, pod, into
        )
        if rows == 0 or (preempting and not self.preempts):
            return Delay(), {}
        features = np.zeros((rows, len(PAIR_FEATURES)), dtype=np.float32)
        copy_rows(encoder, c, nodes, rows, features)
        mask = np.zeros((1, 2 * rows + 2), dtype=np.bool_)
        mask[0, rows if preempting else 0 : 2 * rows if preempting else rows] = True
        allowed = torch.from_numpy(mask)
        with few_torch_threads(), torch.inference_mode():
            values = self.network(
                torch.from_numpy(features).unsqueeze(0), torch.from_numpy(context).unsqueeze(0), allowed
            )
            best = int(best_legal(values, allowed)) % rows
        value_of = dict(zip(nodes[:rows].tolist(), values[allowed].tolist(), strict=True))
        node = int(nodes[best])
        return Preempt(node) if preempting else Place(node, row_devices(encoder, c, node)), value_of
