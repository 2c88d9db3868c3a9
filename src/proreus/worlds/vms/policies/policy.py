"""Policies of the world `vms`: the protocol, and rules as policies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.packed import pack
from proreus.kernels.rng import seeded
from proreus.policies.networks.bidder import Bidder, no_bidder
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.policies.rules import choose_place
from proreus.worlds.vms.state.observation import VmObservation


class VmPolicy(Protocol):
    """Decides about virtual machines, one at a time."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    def decide(self, observation: VmObservation) -> int:
        """The place of the request at hand: server * 2 + NUMA node, one where `avail` is set."""
        ...


@dataclass(frozen=True, eq=False)
class VmRulePolicy:
    """A rule, a scorer or a network that bids; worlds may also run its `rule` inside their own kernels."""

    name: str
    kind: int
    seed: int = 0
    weights: F64 = field(default_factory=lambda: np.zeros(len(FEATURES)))
    """[features] of a learned scorer."""
    bidder: Bidder = field(default_factory=lambda: no_bidder(SIZES))
    """The network of a policy that bids."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_rule", self.new_rule())

    def new_rule(self) -> VmRule:
        """The rule for a kernel, its random choices from the start."""
        return pack(
            VmRule(
                kind=np.array([self.kind], dtype=np.int64),
                weights=self.weights.astype(np.float64),
                features=np.zeros(len(FEATURES)),
                rng=seeded(self.seed),
                bidder=self.bidder,
            )
        )

    def decide(self, observation: VmObservation) -> int:
        """The rule's choice."""
        rule: VmRule = self._rule  # type: ignore[attr-defined]
        return int(
            choose_place(
                observation.servers, observation.flavours, observation.lane, observation.flavour, rule
            )
        )
