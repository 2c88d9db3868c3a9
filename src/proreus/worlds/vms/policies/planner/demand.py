"""What a planner has seen of one run, and what may come after it: drawn from nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from proreus.kernels.arrays import F64, I32, I64
from proreus.kernels.packed import pack
from proreus.worlds.vms.model import FULL_CODES
from proreus.worlds.vms.policies.planner.futures import Future
from proreus.worlds.vms.state.observation import Past, VmObservation
from proreus.worlds.vms.state.servers import NOWHERE

LEAST_SEEN = 30
"""Machines before the first future: fewer say little of what comes."""
_REMEMBERED = 2_000
"""The latest arrivals, and the latest stays of a flavour, that futures are drawn from."""
_STRETCH = 10
"""Arrivals that are drawn together, one after the other as they came: machines come in batches."""


@dataclass
class Demand:
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
        for machine in [one for one in self._since if one < past.machine and past.place[one] == NOWHERE]:
            stays = self._stays.setdefault(int(past.flavour[machine]), [])
            stays.append(observation.now - self._since.pop(machine))
            del stays[:-_REMEMBERED]
        self._since[past.machine] = observation.now
        self.latest = past.machine

    def future(
        self, observation: VmObservation, past: Past, length: int, random: np.random.Generator
    ) -> Future:
        """One future of so many machines, the one at hand and those in line among them."""
        running = np.array([one for one in self._since if one < past.machine], dtype=np.int64)
        ages = observation.now - np.array([self._since[one] for one in running.tolist()])
        kinds = past.flavour[running]
        line = slice(past.machine, past.machine + length)
        flavours, moments = self._arrivals(past, observation.now, length - past.flavour[line].size, random)
        coming: I32 = np.concatenate([past.flavour[line], flavours])
        left = np.zeros(running.size)
        stays = np.zeros(coming.size)
        for kind in np.unique(np.concatenate([kinds, coming])).tolist():
            there = kinds == kind
            known = np.sort(np.concatenate([self._stays.get(kind, []), 2.0 * ages[there]]))
            if known.size == 0:
                known = self._any_stays(ages)
            left[there] = _drawn(known, ages[there], random) - ages[there]
            come = coming == kind
            stays[come] = _drawn(known, np.zeros(int(come.sum())), random)
        if not observation.treatment.release:
            left[:], stays[:] = np.inf, np.inf
        order = np.argsort(left, kind="stable")
        unknown = np.zeros(coming.size)
        return pack(
            Future(
                flavour=np.concatenate([kinds[order], coming]).astype(np.int32),
                place=np.concatenate([past.place[running][order], unknown]).astype(np.int32),
                # What the machine at hand has waited already is past.
                arrival=np.concatenate(
                    [np.zeros(running.size), [observation.now], past.arrival[line][1:], moments]
                ),
                leaving=observation.now + left[order],
                stay=np.concatenate([np.zeros(running.size), stays]),
                given=np.array([observation.lane, running.size, FULL_CODES[observation.treatment.full]]),
            )
        )

    def _any_stays(self, ages: F64) -> F64:
        """Of all flavours together: for one that nobody has seen yet."""
        return np.sort(np.concatenate([*self._stays.values(), 2.0 * ages]))

    def _arrivals(self, past: Past, now: float, count: int, random: np.random.Generator) -> tuple[I32, F64]:
        """(flavour, moment) of so many further machines: stretches of those that came, in new order."""
        flavours, arrivals = past.flavour[-_REMEMBERED:], past.arrival[-_REMEMBERED:]
        gaps = np.diff(arrivals, prepend=arrivals[0])
        first = random.integers(0, flavours.size, -(-max(count, 0) // _STRETCH))
        drawn: I64 = ((first[:, None] + np.arange(_STRETCH)) % flavours.size).ravel()[: max(count, 0)]
        return flavours[drawn], now + np.cumsum(gaps[drawn])


def _drawn(known: F64, ages: F64, random: np.random.Generator) -> F64:
    """How long machines of these ages stay in all: as long as one of those, in order, that stayed longer.

    One that still runs is known to have stayed so long, and held to stay as long again.
    """
    beyond = np.searchsorted(known, ages, side="right")
    drawn = beyond + (random.random(ages.size) * (known.size - beyond)).astype(np.int64)
    longest = drawn >= known.size
    found: F64 = known[np.minimum(drawn, known.size - 1)]
    found[longest] = 2.0 * ages[longest]
    return found
