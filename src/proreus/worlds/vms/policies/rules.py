"""The rules that place virtual machines, as one kernel: `choose_place`. Equals fall to the lowest place.

Best fit is the true one: the place that is left with least. VMAgent's environment has a "best fit" that takes
the place left with *most*, and looks at one NUMA node only where a request takes both; it is here as
MISTAKEN_BEST_FIT, to reproduce the figures published with it.
"""

from __future__ import annotations

import math

from proreus.kernels.jit import compiled
from proreus.kernels.rng import next_below
from proreus.worlds.vms.policies import columns as c
from proreus.worlds.vms.policies.bidder import highest_bid
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.policies.gaps import best_gap
from proreus.worlds.vms.policies.scorer import highest_score
from proreus.worlds.vms.state.servers import (
    NOWHERE,
    Flavours,
    Servers,
    first_place,
    left_over,
    share_in_use,
    tightest_place,
)

FULL_FROM = 0.95
"""Share in use from which on a cluster is full."""
FORGETS = 1.0 / 3000.0
"""What one machine counts for in how often the cluster was full lately: most of a day of the real month.
So the busy hours of a cluster that is not crowded do not make it so."""
RARELY = 0.05
"""A cluster that was full so often, at most, hardly ever was."""
AT_FIRST = 1.0
"""How often a cluster that begins empty is taken to have been full: always. What moves in while a crowded one
is taken for a calm one may stay for weeks; the other way round little is lost."""
EASY_FULL_UP_TO = 0.1
"""How often an EASY cluster may have been full since it was empty."""


@compiled
def choose_place(servers: Servers, flavours: Flavours, lane: int, flavour: int, rule: VmRule) -> int:
    """The place that the rule gives a request of that flavour, which fits somewhere."""
    rule.now[0] = _stage(servers, lane, rule)
    kind = rule.kind[rule.now[0]]
    if kind == c.FIRST_FIT:
        return first_place(servers, lane, flavour)
    if kind == c.BEST_FIT:
        return tightest_place(servers, flavours, lane, flavour)
    if kind in (c.WORST_FIT, c.MISTAKEN_BEST_FIT):
        return _roomiest_place(servers, flavours, lane, flavour, kind == c.MISTAKEN_BEST_FIT)
    if kind == c.BALANCE_FIT:
        return _balanced_place(servers, flavours, lane, flavour)
    if kind == c.RANDOM:
        return _random_place(servers, lane, flavour, rule)
    if kind == c.BIDDING:
        return highest_bid(servers, flavours, lane, flavour, rule.bidder)
    if kind == c.GAPS:
        return best_gap(servers, flavours, lane, flavour, rule)
    return highest_score(servers, flavours, lane, flavour, rule)


@compiled
def _stage(servers: Servers, lane: int, rule: VmRule) -> int:
    """Which of the rule's stages it is, by how often the cluster was full lately and the share in use."""
    if rule.below[c.CALM] <= 0.0:
        return c.CROWDED
    used = share_in_use(servers, lane)
    _remember(used, rule)
    if rule.lately[c.SO_FAR_EASY] > 0.0:
        return c.EASY
    if rule.lately[c.OFTEN_FULL] > rule.below[c.CALM]:
        return c.CROWDED
    return c.ROOMY if used <= rule.below[c.ROOMY] and rule.lately[c.OFTEN_FULL] <= RARELY else c.CALM


@compiled
def _remember(used: float, rule: VmRule) -> None:
    """Take in the share in use that a machine finds.

    A cluster that begins empty fills with those who stay long, the faster the more is asked of it, and slower
    and slower: a share in use beyond the root of the machines placed says that it will be full one day. That
    is not taken back, for to spread machines keeps large ones out, and less is in use then.
    """
    lately = rule.lately
    if used == 0.0:
        lately[c.OFTEN_FULL], lately[c.SO_FAR_PLACED], lately[c.SO_FAR_FULL] = AT_FIRST, 0.0, 0.0
        lately[c.SO_FAR_EASY] = 1.0 if rule.below[c.EASY] > 0.0 else 0.0
        return
    full = 1.0 if used > FULL_FROM else 0.0
    lately[c.OFTEN_FULL] += FORGETS * (full - lately[c.OFTEN_FULL])
    lately[c.SO_FAR_PLACED] += 1.0
    lately[c.SO_FAR_FULL] += FORGETS * (full - lately[c.SO_FAR_FULL])
    limit = rule.below[c.EASY] * math.sqrt(lately[c.SO_FAR_PLACED] / 1000.0)
    if used > limit or lately[c.SO_FAR_FULL] > EASY_FULL_UP_TO:
        lately[c.SO_FAR_EASY] = 0.0


@compiled
def _roomiest_place(servers: Servers, flavours: Flavours, lane: int, flavour: int, mistaken: bool) -> int:
    """The place that is left with most."""
    fits = servers.fits[lane, flavour]
    best, most = NOWHERE, -1.0
    for place in range(2 * servers.capacity.shape[0]):
        if fits[place]:
            if mistaken:
                # Of both NUMA nodes it looks at the first, twice.
                numa = 0 if flavours.double[flavour] else place % 2
                rest = 1.0
                for kind in range(2):
                    free = servers.free[lane, place // 2, numa, kind] - flavours.need[kind, flavour]
                    rest = min(rest, free / servers.capacity[place // 2, numa, kind])
            else:
                rest = left_over(servers, flavours, lane, place, flavour)
            if rest > most:
                best, most = place, rest
    return best


@compiled
def _balanced_place(servers: Servers, flavours: Flavours, lane: int, flavour: int) -> int:
    """SPANE's balance fit: the server whose NUMA nodes differ most, there the emptier; first fit if double.

    A NUMA node is as empty as the scarcer of its resources is; where no server has a difference, first fit.
    """
    best, most = NOWHERE, 0.0
    if not flavours.double[flavour]:
        fits, free, capacity = servers.fits[lane, flavour], servers.free, servers.capacity
        for server in range(capacity.shape[0]):
            left, right = fits[2 * server], fits[2 * server + 1]
            if not (left or right):
                continue
            first = min(
                free[lane, server, 0, 0] / capacity[server, 0, 0],
                free[lane, server, 0, 1] / capacity[server, 0, 1],
            )
            second = min(
                free[lane, server, 1, 0] / capacity[server, 1, 0],
                free[lane, server, 1, 1] / capacity[server, 1, 1],
            )
            difference = abs(first - second)
            if difference > most:
                most = difference
                # The emptier node may lack the other resource: then it is the fuller one.
                wanted = 0 if first >= second else 1
                best = 2 * server + (wanted if (left if wanted == 0 else right) else 1 - wanted)
    return first_place(servers, lane, flavour) if best == NOWHERE else best


@compiled
def _random_place(servers: Servers, lane: int, flavour: int, rule: VmRule) -> int:
    left = next_below(rule.rng, servers.room[lane, flavour])
    for place in range(2 * servers.capacity.shape[0]):
        if servers.fits[lane, flavour, place]:
            if left == 0:
                return place
            left -= 1
    return NOWHERE
