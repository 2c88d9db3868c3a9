"""Rules and networks as policies; a kernel may also run the `FunctionsRule` of one by itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from proreus.kernels.rng import seeded
from proreus.kernels.structs import pack
from proreus.policies.networks.bidder import Bidder, no_bidder
from proreus.policies.protocol import Explanation, Policy
from proreus.worlds.functions.encoding.rows import SIZES, rows_for
from proreus.worlds.functions.model import Decision, Keep, StartInstance, WaitForInstance
from proreus.worlds.functions.policies.columns import BIDDING, KEEPS_BY_BIDS, FunctionsRule
from proreus.worlds.functions.policies.explanation import explained
from proreus.worlds.functions.policies.rules import choose
from proreus.worlds.functions.state.observation import FunctionsObservation

FunctionsPolicy: TypeAlias = Policy[FunctionsObservation, Decision]


@dataclass(frozen=True, eq=False)
class FunctionsRulePolicy:
    """A rule, or a network that bids."""

    name: str
    kind: int
    keeper: int
    seconds: float
    seed: int = 0
    bidder: Bidder = field(default_factory=lambda: no_bidder(SIZES))
    waits: bool = True
    """Whether a network may wait."""
    _bound: dict[int, FunctionsRule] = field(default_factory=dict, init=False, repr=False)
    """By the number of nodes: the rule of this policy's run."""

    def fresh(self, seed: int) -> FunctionsRulePolicy:
        """The same, for another run."""
        return replace(self, seed=seed)

    def rule_for(self, nodes: int) -> FunctionsRule:
        """The rule of this policy's run, with its memory and its dice."""
        if nodes not in self._bound:
            self._bound[nodes] = self._new_rule(nodes)
        return self._bound[nodes]

    def decide(self, observation: FunctionsObservation) -> Decision:
        """The rule's choice."""
        node, seconds = choose(observation.work, observation.runs, 0, self.rule_for(observation.nodes))
        if node < 0:
            return Keep(float(seconds))
        return WaitForInstance() if node == observation.nodes else StartInstance(int(node))

    def explain(self, observation: FunctionsObservation) -> Explanation:
        """The rule's choice, and what it would be everywhere; asking changes nothing."""
        rule = self.rule_for(observation.nodes)
        memory = rule.rng.copy(), rule.cursor.copy()
        decision = self.decide(observation)
        rule.rng[:], rule.cursor[:] = memory
        return explained(self.name, rule, observation, decision)

    def _new_rule(self, nodes: int) -> FunctionsRule:
        bids = rows_for(nodes) if self.kind == BIDDING or self.keeper == KEEPS_BY_BIDS else 0
        return pack(
            FunctionsRule(
                kind=np.array([self.kind], dtype=np.int64),
                keeper=np.array([self.keeper], dtype=np.int64),
                seconds=np.array([self.seconds]),
                waits=np.array([self.waits], dtype=np.int64),
                cursor=np.zeros(1, dtype=np.int64),
                rng=seeded(self.seed),
                rows=np.zeros((bids, SIZES[0]), dtype=np.float32),
                context=np.zeros(SIZES[1], dtype=np.float32),
                legal=np.zeros(bids, dtype=np.uint8),
                bids=np.zeros(bids, dtype=np.float32),
                bidder=self.bidder,
            )
        )
