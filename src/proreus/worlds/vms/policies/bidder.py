"""Networks as policies of the world `vms`: every place bids for the machine, the highest bid wins."""

from __future__ import annotations

import numpy as np

from proreus.kernels.jit import compiled
from proreus.policies.networks.bidder import Bidder, make_bids
from proreus.worlds.vms.encoding.rows import CONTEXT_FEATURES, ROW_FEATURES, encode_choice
from proreus.worlds.vms.state.servers import NOWHERE, UNITS, Flavours, Servers

SIZES = (len(ROW_FEATURES), len(CONTEXT_FEATURES))
"""Features of a row and of the context."""
_F, _G = SIZES


@compiled
def highest_bid(servers: Servers, flavours: Flavours, lane: int, flavour: int, bidder: Bidder) -> int:
    """The place that bids most for a request of that flavour, the lowest of equals."""
    places = 2 * servers.capacity.shape[0]
    rows, context = np.empty((places, _F), dtype=np.float32), np.empty(_G, dtype=np.float32)
    asked, scale = np.zeros((2, 2, 2), dtype=np.float32), np.empty(2, dtype=np.float32)
    for kind in range(2):
        # As in training, where all servers are alike.
        scale[kind] = servers.capacity[0, 0, kind] / UNITS
        for chosen in range(2):
            for numa in range(2):
                if flavours.double[flavour] or chosen == numa:
                    asked[chosen, numa, kind] = flavours.need[kind, flavour] / UNITS
    fits = servers.fits[lane, flavour]
    encode_choice(servers.shown[lane], asked, fits, scale, rows, context)
    bids = np.zeros(places, dtype=np.float32)
    make_bids(bidder, rows, context, fits, bids)
    best = NOWHERE
    for place in range(places):
        if fits[place] and (best == NOWHERE or bids[place] > bids[best]):
            best = place
    return best
