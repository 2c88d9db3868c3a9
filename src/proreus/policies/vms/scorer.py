"""The learned policy of the world `vms`: the same weights score every place, the highest score wins."""

from __future__ import annotations

from proreus.cluster.compiled import compiled
from proreus.cluster.servers import NOWHERE, Flavours, Servers
from proreus.encoding.vms import encode_place
from proreus.policies.vms.columns import VmRule


@compiled
def highest_score(servers: Servers, flavours: Flavours, lane: int, flavour: int, rule: VmRule) -> int:
    """The place with the highest score, the lowest of equals."""
    best, most = NOWHERE, -1e300
    # A request for both NUMA nodes has one place a server.
    stride = 2 if flavours.double[flavour] else 1
    for place in range(0, 2 * servers.capacity.shape[0], stride):
        if servers.fits[lane, flavour, place]:
            score = score_of(servers, flavours, lane, flavour, place, rule)
            if score > most:
                best, most = place, score
    return best


@compiled
def score_of(
    servers: Servers, flavours: Flavours, lane: int, flavour: int, place: int, rule: VmRule
) -> float:
    """The weighted sum of a place's features."""
    encode_place(servers, flavours, lane, flavour, place, rule.features)
    score = 0.0
    for feature in range(rule.weights.size):
        score += rule.weights[feature] * rule.features[feature]
    return score
