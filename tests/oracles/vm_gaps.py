"""The features of a scorer of gaps in plain Python, stretch by stretch."""

from __future__ import annotations

from itertools import pairwise

from proreus.worlds.vms.state.observation import VmObservation

NODE = [0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0]
SERVER = [0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6, 0.8, 1.0]


def within(high: float, low: float, edges: list[float]) -> list[float]:
    """How much of what lies between `low` and `high` lies in each stretch."""
    return [max(0.0, min(high, last) - max(low, first)) for first, last in pairwise(edges)]


def plain_gaps(observation: VmObservation, place: int) -> list[float]:
    """The features of a place."""
    server, here = divmod(place, 2)
    free = (
        observation.servers.free[observation.lane, server] / observation.servers.capacity[server]
    ).tolist()
    need = observation.flavours.need[:, observation.flavour]
    asked = (need / observation.servers.capacity[server, here]).tolist()
    taking = [0, 1] if observation.flavours.double[observation.flavour] else [here]
    left = [
        [free[node][kind] - (asked[kind] if node in taking else 0.0) for kind in range(2)]
        for node in range(2)
    ]
    before, after = [min(node) for node in free], [min(node) for node in left]
    share = max(asked)
    from_nodes = [within(before[node], after[node], NODE) for node in taking]
    return [
        *(sum(parts) / share for parts in zip(*from_nodes, strict=True)),
        *(part / share for part in within(min(before), min(after), SERVER)),
        min(after[node] for node in taking),
        sum(abs(left[node][0] - left[node][1]) - abs(free[node][0] - free[node][1]) for node in taking)
        / share,
        abs(after[0] - after[1]),
    ]
