"""What a planner has seen of one run, and what may come after it: drawn from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I32, I64
from proreus.kernels.structs import pack
from proreus.worlds.vms.model import FULL_CODES
from proreus.worlds.vms.policies.planner.futures import VmFuture
from proreus.worlds.vms.state.observation import Past, VmObservation
from proreus.worlds.vms.state.servers import NOWHERE

LEAST_SEEN = 30
"""Machines before the first future: fewer say little of what comes."""
_REMEMBERED = 2_000
"""The latest arrivals, and the latest stays of a flavour, that futures are drawn from."""
_STRETCH = 10
"""Arrivals that are drawn together, one after the other as they came: machines come in batches."""


@dataclass
class ObservedDemand:
    """The memory of one run."""

    run: int
    latest: int = -1
    """The machine that was asked about last."""
    _since: dict[int, float] = field(default_factory=dict)
    """When each machine that runs moved in."""
    _stays: dict[int, list[float]] = field(default_factory=dict)
    """Flavour -> how long those stayed that have left."""

    def belongs_to(self, past: Past) -> bool:
        """Whether that is the run which is remembered here."""
        return past.run == self.run and past.machine >= self.latest

    def see(self, observation: VmObservation, past: Past) -> None:
        """Remember who has left since, and who is asked about now; twice is as good as once."""
        for machine in [seen for seen in self._since if seen < past.machine and past.place[seen] == NOWHERE]:
            stays = self._stays.setdefault(int(past.flavour[machine]), [])
            stays.append(observation.now - self._since.pop(machine))
            del stays[:-_REMEMBERED]
        self._since[past.machine] = observation.now
        self.latest = past.machine

    def outlook(self, observation: VmObservation, past: Past) -> Outlook:
        """What futures from now on are drawn from."""
        running = np.array([machine for machine in self._since if machine < past.machine], dtype=np.int64)
        ages = observation.now - np.array([self._since[machine] for machine in running.tolist()])
        kinds = past.flavour[running]
        # One that still runs is known to have stayed so long, and held to stay as long again.
        known = {
            kind: np.sort(np.concatenate([self._stays.get(kind, []), 2.0 * ages[kinds == kind]]))
            for kind in {*self._stays, *kinds.tolist()}
        }
        every = np.sort(np.concatenate([np.zeros(1), *known.values()]))
        first = np.zeros(observation.flavours.double.size, dtype=np.int64)
        last = np.full(first.size, every.size)  # of a flavour that nobody has seen yet: any stay
        stays, longer = [every], np.zeros(running.size, dtype=np.int64)
        at = every.size
        for kind, of_kind in known.items():
            first[kind], last[kind] = at, at + of_kind.size
            there = kinds == kind
            longer[there] = at + np.searchsorted(of_kind, ages[there], side="right")
            stays.append(of_kind)
            at += of_kind.size
        return Outlook(
            observation,
            past,
            Runners(kinds, past.place[running], ages, np.minimum(longer, last[kinds] - 1)),
            Stays(np.concatenate(stays), first, last),
        )


class Runners(NamedTuple):
    """R machines that run."""

    flavour: I32
    place: I32
    age: F64
    """Seconds."""
    longer: I64
    """The first of the known stays of its flavour that is longer than it has stayed."""


class Stays(NamedTuple):
    """All stays that are known, flavour after flavour, the shortest of each first."""

    seconds: F64
    first: I64
    """[F] of a flavour."""
    last: I64
    """[F] behind the last of it."""

    def drawn(self, first: I64, flavour: I32, random: np.random.Generator) -> F64:
        """A stay for each machine, from the one named on to the longest of its flavour."""
        index = first + (random.random(first.size) * (self.last[flavour] - first)).astype(np.int64)
        return self.seconds[index]


@dataclass(frozen=True)
class Outlook:
    """What is known when a machine needs a place."""

    observation: VmObservation
    past: Past
    running: Runners
    stays: Stays

    def future(self, length: int, random: np.random.Generator) -> VmFuture:
        """One of so many machines to come, the one at hand and those in line among them."""
        observation, running = self.observation, self.running
        line = slice(self.past.machine, self.past.machine + length)
        waiting = self.past.flavour[line]
        flavours, moments = self._arrivals(length - waiting.size, random)
        coming: I32 = np.concatenate([waiting, flavours])
        left = self.stays.drawn(running.longer, running.flavour, random) - running.age
        stays = self.stays.drawn(self.stays.first[coming], coming, random)
        if not observation.treatment.release:
            left[:], stays[:] = np.inf, np.inf
        order = np.argsort(left, kind="stable")
        nobody = np.zeros(left.size)
        return pack(
            VmFuture(
                flavour=np.concatenate([running.flavour[order], coming]),
                place=np.concatenate([running.place[order], np.zeros(coming.size, dtype=np.int32)]),
                # What the machine at hand has waited already is past.
                arrival=np.concatenate([nobody, [observation.now], self.past.arrival[line][1:], moments]),
                leaving=observation.now + left[order],
                stay=np.concatenate([nobody, stays]),
                given=np.array([observation.lane, left.size, FULL_CODES[observation.treatment.full]]),
            )
        )

    def _arrivals(self, count: int, random: np.random.Generator) -> tuple[I32, F64]:
        """(flavour, moment) of so many further machines: stretches of those that came, in new order."""
        flavours, arrivals = self.past.flavour[-_REMEMBERED:], self.past.arrival[-_REMEMBERED:]
        gaps = np.diff(arrivals, prepend=arrivals[0])
        first = random.integers(0, flavours.size, -(-count // _STRETCH))
        drawn: I64 = ((first[:, None] + np.arange(_STRETCH)) % flavours.size).ravel()[:count]
        return flavours[drawn], self.observation.now + np.cumsum(gaps[drawn])
