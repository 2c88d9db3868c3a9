"""The scorer of the world `vms` that weighs gaps (`encoding.gaps`): the place with the highest score wins."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled
from proreus.worlds.vms.encoding.gaps import weigh_gaps
from proreus.worlds.vms.encoding.place import seen_of
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.state.servers import NOWHERE, Flavours, Servers


@compiled
def best_gap(servers: Servers, flavours: Flavours, lane: int, flavour: int, rule: VmRule) -> int:
    """The place with the highest score, the lowest of equals."""
    best, most = NOWHERE, -1e300
    nodes = 1 if flavours.double[flavour] else 2
    seen, fits = seen_of(servers, flavours, lane, rule.lost), servers.fits[lane, flavour]
    worth, weights = rule.worth[rule.now[0]], rule.gaps[rule.now[0]]
    for server in range(servers.capacity.shape[0]):
        for numa in range(nodes):
            place = 2 * server + numa
            if fits[place]:
                score = weigh_gaps(seen, flavour, place, worth, weights)
                if score > most:
                    best, most = place, score
    return best


@compiled
def all_gap_scores(servers: Servers, flavours: Flavours, lane: int, flavour: int, rule: VmRule) -> F64:
    """The score of every place, minus infinity where the request does not fit."""
    scores = np.full(2 * servers.capacity.shape[0], -np.inf)
    seen = seen_of(servers, flavours, lane, rule.lost)
    worth, weights = rule.worth[rule.now[0]], rule.gaps[rule.now[0]]
    for place in range(scores.size):
        if servers.fits[lane, flavour, place]:
            scores[place] = weigh_gaps(seen, flavour, place, worth, weights)
    return scores
