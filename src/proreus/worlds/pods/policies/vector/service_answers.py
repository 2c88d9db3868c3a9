"""Answers to clients that ask by the k8s simulator's vector, as the service gives them.

What a client's states showed of earlier answers is minded: nodes that refuse are not named again
(`refusals`), and who asks once for every node may be named several (`several`). The model decides once for a
state, however often a client asks about it. None of this depends on the model.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import NamedTuple, Protocol

import numpy as np

from proreus.kernels.arrays import F64, Bool
from proreus.worlds.pods.policies.vector.multi_node import Named, Outcomes
from proreus.worlds.pods.policies.vector.refusals import RefusalMemory

_MOST_BYTES = 1 << 25


class VectorAnswer(NamedTuple):
    """What to say, and how that came about."""

    action: int
    log_prob: float
    by_model: bool
    """And not by a rule that stands in for it."""
    own: bool
    """Whether it is the model's own choice, and not one of several nodes that are named beside it."""
    mask: Bool | None
    """Which actions were allowed; None: all."""


class VectorDecider(Protocol):
    """A model about to decide on one state, guarded as its owner sees fit."""

    @property
    def key(self) -> object:
        """Equal for questions that the same state answers alike: the version, and whether it draws."""
        ...

    def decide(self, mask: Bool | None) -> VectorAnswer:
        """Its own choice; never fails."""
        ...

    def bids(self, mask: Bool | None) -> F64 | None:
        """float64[A]: the chance of every action; None where it cannot say."""
        ...


class _Client:
    """What one client asked last, and what it was answered."""

    def __init__(self, nodes: int) -> None:
        self.outcomes = Outcomes(nodes)
        self.key: object = None
        self.answer: VectorAnswer | None = None
        self.named: Named | None = None
        self.bids = np.zeros(0)

    def earlier(self, number: int, key: object) -> VectorAnswer | None:
        """The answer to this question, where the state was decided on already."""
        if self.answer is None or self.key != key:
            return None
        if self.named is None:
            return self.answer
        action = self.named.answer(number)
        own = action == self.answer.action
        log_prob = self.answer.log_prob if own else float(np.log(max(self.bids[action], 1e-300)))
        return VectorAnswer(action, log_prob, by_model=True, own=own, mask=self.answer.mask)


class VectorService:
    """Of many clients, each with a cluster of its own; the one that was silent for longest is forgotten.

    May be called from many threads at once.
    """

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._refusals = RefusalMemory(nodes)
        self._most = max(1, _MOST_BYTES // (64 * nodes + 32_768))
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._lock = threading.Lock()

    def answer(self, client: str, state: F64, decider: VectorDecider) -> VectorAnswer:
        with self._lock:
            known = self._known(client)
            number = known.outcomes.ask(state)
            if number == 0:
                known.answer = known.named = None
            earlier = known.earlier(number, decider.key)
            if earlier is not None:
                return earlier
            for node in known.outcomes.take_refusing():
                self._refusals.refuses(client, node)
            several = number == 0 and known.outcomes.names_several
        mask = self._refusals.welcome(client, state)
        answer = decider.decide(mask)
        bids = decider.bids(mask) if several and answer.by_model else None
        with self._lock:
            if known.answer is None and answer.by_model and known.outcomes.is_about(state):
                known.key, known.answer = decider.key, answer
                known.outcomes.name_one(answer.action)
                if bids is not None:
                    known.bids = bids
                    known.named = known.outcomes.name_several(mask, answer.action, bids)
            answer = known.earlier(number, decider.key) or answer
            named = answer.action if known.named is None else 2 * self._nodes
        self._refusals.answered(client, state, named)
        return answer

    def told(self, client: str, state: F64, action: int) -> None:
        """Of an answer that was given without asking here, to a client who knows who refuses."""
        with self._lock:
            self._known(client).outcomes.pass_over()
        self._refusals.answered(client, state, action)

    def _known(self, client: str) -> _Client:
        known = self._clients.get(client)
        if known is None:
            known = self._clients[client] = _Client(self._nodes)
            if len(self._clients) > self._most:
                self._clients.popitem(last=False)
        self._clients.move_to_end(client)
        return known
