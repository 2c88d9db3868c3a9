"""The rules that place virtual machines, and what a learned scorer sees, again in plain Python."""

from __future__ import annotations

import numpy as np

from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import TYPICAL, UNITS


class PlainLook:
    """An observation as plain whole numbers: what is free, and what would be if a place were taken."""

    def __init__(self, observation: VmObservation) -> None:
        self.capacity: list[list[list[int]]] = observation.servers.capacity.tolist()
        self.free: list[list[list[int]]] = observation.servers.free[observation.lane].tolist()
        self.feat = [
            [[round(float(amount) * UNITS) for amount in node] for node in choice]
            for choice in observation.feat
        ]
        self.both = bool(observation.flavours.double[observation.flavour])
        self.legal = [place for place, fits in enumerate(observation.avail) if fits]

    def after(self, place: int) -> list[list[int]]:
        """[numa][resource] free on the place's server once the machine is in."""
        taken = self.feat[place % 2]
        return [
            [self.free[place // 2][numa][kind] - taken[numa][kind] for kind in range(2)] for numa in range(2)
        ]

    def shares(self, place: int) -> list[list[float]]:
        """The same as shares of the NUMA node."""
        capacity = self.capacity[place // 2]
        after = self.after(place)
        return [[after[numa][kind] / capacity[numa][kind] for kind in range(2)] for numa in range(2)]

    def left_over(self, place: int) -> float:
        """The scarcer resource of the node, or nodes, that the machine takes."""
        nodes = (0, 1) if self.both else (place % 2,)
        return min(min(self.shares(place)[numa]) for numa in nodes)


def first_fit(look: PlainLook) -> int:
    return look.legal[0]


def best_fit(look: PlainLook) -> int:
    return min(look.legal, key=look.left_over)


def worst_fit(look: PlainLook) -> int:
    return max(look.legal, key=look.left_over)


def vmagent_best_fit(look: PlainLook) -> int:
    """Most room, and of two NUMA nodes only the first counts."""
    return max(look.legal, key=lambda place: min(look.shares(place)[0 if look.both else place % 2]))


def balance_fit(look: PlainLook) -> int:
    """The server whose nodes differ most, there the emptier one that fits; first fit for doubles."""
    if look.both:
        return look.legal[0]

    def emptiness(server: int, numa: int) -> float:
        return min(look.free[server][numa][kind] / look.capacity[server][numa][kind] for kind in range(2))

    servers = list(dict.fromkeys(place // 2 for place in look.legal))
    difference = {server: abs(emptiness(server, 0) - emptiness(server, 1)) for server in servers}
    widest = max(servers, key=lambda server: difference[server])
    if difference[widest] == 0:
        return look.legal[0]
    emptier = 0 if emptiness(widest, 0) >= emptiness(widest, 1) else 1
    wanted = 2 * widest + emptier
    return wanted if wanted in look.legal else 2 * widest + 1 - emptier


RULES = {
    "first_fit": first_fit,
    "best_fit": best_fit,
    "worst_fit": worst_fit,
    "balance_fit": balance_fit,
    "vmagent_best_fit": vmagent_best_fit,
}


def features(look: PlainLook, place: int) -> list[float]:
    """What `encode_place` should say of a place."""
    server, here = place // 2, place % 2
    capacity = look.capacity[server]
    if look.both:
        fullness = [
            sum(look.free[server][numa][k] / capacity[numa][k] for k in range(2)) for numa in range(2)
        ]
        here = int(np.argmin(fullness))
    there = 1 - here
    share = look.shares(place)
    (cpu, mem), (cpu_other, mem_other) = share[here], share[there]
    empty = [look.free[server][numa][0] == capacity[numa][0] for numa in range(2)]
    figures = [cpu, mem, cpu_other, mem_other, cpu**2, mem**2, cpu_other**2, mem_other**2]
    figures += [min(cpu, mem), min(cpu_other, mem_other)]
    figures += [abs(cpu - cpu_other), abs(mem - mem_other), abs(cpu - mem), cpu * cpu_other]
    figures += [float(all(empty)), float(empty[here])]

    def places(free: list[list[int]], size: tuple[int, int, bool]) -> int:
        cores, gb, both = size
        fits = [node[0] >= cores * UNITS and node[1] >= gb * UNITS for node in free]
        return 2 * all(fits) if both else sum(fits)

    lost = [places(look.free[server], size) - places(look.after(place), size) for size in TYPICAL]
    room = [sum(places(nodes, size) for nodes in look.free) for size in TYPICAL]
    return [
        *figures,
        *map(float, lost),
        *(gone / max(left, 1) for gone, left in zip(lost, room, strict=True)),
    ]
