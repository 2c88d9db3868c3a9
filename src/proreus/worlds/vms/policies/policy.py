"""Policies of the world `vms`: the protocol, and rules as policies."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.rng import seeded
from proreus.kernels.structs import pack
from proreus.policies.networks.bidder import Bidder, no_bidder
from proreus.policies.protocol import Explanation, Policy
from proreus.worlds.vms.encoding.gaps import GAP_FEATURES, curves_of
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.policies.columns import CROWDED, GAPS, VmRule
from proreus.worlds.vms.policies.explanation import explained
from proreus.worlds.vms.policies.rules import AT_FIRST, choose_place
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import TYPICAL

VmPolicy: TypeAlias = Policy[VmObservation, int]
"""Decides where a request goes: server * 2 + NUMA node, one where `avail` is set."""

_NO_PLACES, _NO_GAPS = np.zeros(len(FEATURES)), np.zeros(len(GAP_FEATURES))


@dataclass(frozen=True, eq=False)
class Below:
    """What decides up to some load."""

    kind: int
    weights: F64
    """Of a learned scorer, as its kind has them."""
    share: float
    """Of cores and of memory at most so much is in use (now, or after a thousand machines), or so often they
    were full lately."""


@dataclass(frozen=True, eq=False)
class VmRulePolicy:
    """A rule, a scorer or a network that bids; worlds may also run its `rule` inside their own kernels."""

    name: str
    kind: int
    seed: int = 0
    weights: F64 = field(default_factory=lambda: np.zeros(len(FEATURES)))
    """Of a learned scorer, as its kind has them: [features] of places, or of gaps."""
    bidder: Bidder = field(default_factory=lambda: no_bidder(SIZES))
    """The network of a policy that bids."""
    roomy: Below | None = None
    """Decides where `calm` would, while there is room now and hardly ever was none."""
    calm: Below | None = None
    """Decides while there was room lately, most of the time. None: the same decides at all times."""
    easy: Below | None = None
    """Decides, where `calm` is there too, from an empty cluster on and for as long as it fills slowly."""

    @cached_property
    def rule(self) -> VmRule:
        """The rule of this policy's run, its random state included."""
        return self.new_rule()

    def fresh(self, seed: int) -> VmRulePolicy:
        """The same rule, for other runs."""
        return replace(self, seed=seed)

    def new_rule(self) -> VmRule:
        """The rule for a kernel, its random choices from the start."""
        never = Below(self.kind, self.weights, 0.0)
        stages = (never, self.roomy or never, self.calm or never, self.easy or never)
        gaps = np.stack([stage.weights if stage.kind == GAPS else _NO_GAPS for stage in stages])
        places = np.stack([_NO_PLACES if stage.kind == GAPS else stage.weights for stage in stages])
        return pack(
            VmRule(
                kind=np.array([stage.kind for stage in stages], dtype=np.int64),
                weights=places.astype(np.float64),
                gaps=gaps.astype(np.float64),
                worth=np.stack([curves_of(weights) for weights in gaps]),
                below=np.array([stage.share for stage in stages]),
                lately=np.array([AT_FIRST, 0.0, 0.0, 0.0]),
                now=np.array([CROWDED], dtype=np.int64),
                lost=np.zeros(len(TYPICAL), dtype=np.int64),
                rng=seeded(self.seed),
                bidder=self.bidder,
            )
        )

    def decide(self, observation: VmObservation) -> int:
        servers, flavours = observation.servers, observation.flavours
        return int(choose_place(servers, flavours, observation.lane, observation.flavour, self.rule))

    def explain(self, observation: VmObservation) -> Explanation:
        """The rule's choice and what every place was worth; asking changes nothing."""
        before = self.rule.rng.copy(), self.rule.lately.copy()
        place = self.decide(observation)
        self.rule.rng[:], self.rule.lately[:] = before
        return explained(self.name, self.rule, observation, place)
