"""The learned policy of the world `vms`: the same weights score every place, the highest score wins."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import F64
from proreus.kernels.jit import compiled, compiled_inline
from proreus.worlds.vms.encoding.place import PlaceColumns, seen_of, weigh_place
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.state.servers import NOWHERE, Flavours, Servers


@compiled
def highest_score(servers: Servers, flavours: Flavours, lane: int, flavour: int, rule: VmRule) -> int:
    """The place with the highest score, the lowest of equals.

    Places that are sure to score as one that was scored before are left out: the second of two NUMA nodes in
    the same state, the second node of a request for both, and servers in the state of the server before.
    """
    best, most = NOWHERE, -1e300
    places = 1 if flavours.double[flavour] else 2
    seen, fits, weights = (
        seen_of(servers, flavours, lane, rule.lost),
        servers.fits[lane, flavour],
        rule.weights[rule.now[0]],
    )
    for server in range(servers.capacity.shape[0]):
        if server > 0 and _alike(seen, server):
            continue
        for numa in range(places):
            place = 2 * server + numa
            if not fits[place] or (numa == 1 and _symmetric(seen, server)):
                continue
            score = weigh_place(seen, flavour, place, weights)
            if score > most:
                best, most = place, score
    return best


@compiled
def all_scores(servers: Servers, flavours: Flavours, lane: int, flavour: int, rule: VmRule) -> F64:
    """The score of every place, minus infinity where the request does not fit."""
    scores = np.full(2 * servers.capacity.shape[0], -np.inf)
    seen, weights = seen_of(servers, flavours, lane, rule.lost), rule.weights[rule.now[0]]
    for place in range(scores.size):
        if servers.fits[lane, flavour, place]:
            scores[place] = weigh_place(seen, flavour, place, weights)
    return scores


@compiled_inline
def _alike(seen: PlaceColumns, server: int) -> bool:
    """Whether a server is as the one before."""
    free, capacity = seen.free, seen.capacity
    same = True
    for numa in range(2):
        for kind in range(2):
            same &= free[server, numa, kind] == free[server - 1, numa, kind]
            same &= capacity[server, numa, kind] == capacity[server - 1, numa, kind]
    return same


@compiled_inline
def _symmetric(seen: PlaceColumns, server: int) -> bool:
    """Whether both NUMA nodes of a server are alike."""
    free, capacity = seen.free, seen.capacity
    same = True
    for kind in range(2):
        same &= free[server, 0, kind] == free[server, 1, kind]
        same &= capacity[server, 0, kind] == capacity[server, 1, kind]
    return same
