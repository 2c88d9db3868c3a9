"""The few places that come into question: those that a base scores best, and those of simple rules."""

from __future__ import annotations

from typing import cast

import numpy as np

from proreus.worlds.vms.policies import columns as c
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.policies.gaps import all_gap_scores
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.policies.scorer import all_scores
from proreus.worlds.vms.state.observation import VmObservation

_BEST_SCORED = 3
_SIMPLE = tuple(
    VmRulePolicy(name, kind)
    for name, kind in (
        ("first_fit", c.FIRST_FIT),
        ("best_fit", c.BEST_FIT),
        ("balance_fit", c.BALANCE_FIT),
        ("worst_fit", c.WORST_FIT),
    )
)


def candidates(observation: VmObservation, rule: VmRule, choice: int) -> list[int]:
    """The rule's own choice first; of places that the machine would leave alike only one."""
    wanted = [choice]
    if rule.kind[rule.now[0]] in (c.LEARNED, c.GAPS):
        servers, flavours = observation.servers, observation.flavours
        scored = all_scores if rule.kind[rule.now[0]] == c.LEARNED else all_gap_scores
        scores = scored(servers, flavours, observation.lane, observation.flavour, rule)
        order = np.argsort(-scores, kind="stable")
        known: dict[tuple[bytes, ...], int] = {}
        for place in order[np.isfinite(scores[order])].tolist():
            known.setdefault(_state(observation, place), place)
            if len(known) == _BEST_SCORED:
                break
        wanted += known.values()
    wanted += (simple.decide(observation) for simple in _SIMPLE)
    places: dict[tuple[bytes, ...], int] = {}
    for place in wanted:
        places.setdefault(_state(observation, place), place)
    return list(places.values())


def _state(observation: VmObservation, place: int) -> tuple[bytes, ...]:
    """What the server is like, as the place sees it."""
    servers, server, numa = observation.servers, place // 2, place % 2
    nodes = [
        cast(bytes, servers.free[observation.lane, server, node].tobytes())
        + cast(bytes, servers.capacity[server, node].tobytes())
        for node in (numa, 1 - numa)
    ]
    return tuple(sorted(nodes) if observation.flavours.double[observation.flavour] else nodes)
