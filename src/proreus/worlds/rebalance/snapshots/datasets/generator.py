"""Generated snapshots for users without data, calibrated with ByteDance's: sizes, flavours, how full they
are.

A cluster is filled as clusters are: virtual machines arrive at random machines with room, others leave,
until the share of cores in use has settled. What is left free is then as scattered as in the public
snapshots, where between 0.55 and 0.98 of the free cores are fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.rebalance.snapshots.model import CPU, Snapshot

NUMA_CORES, NUMA_MEMORY = 44, 184_388
MIB_PER_CORE = 2048

# (cores per NUMA node, on both NUMA nodes, share), as in the public snapshot
_FLAVOURS = (
    (2, False, 0.16),
    (4, False, 0.43),
    (8, False, 0.15),
    (16, False, 0.09),
    (32, False, 0.03),
    (4, True, 0.03),
    (8, True, 0.02),
    (16, True, 0.03),
    (32, True, 0.06),
)


@dataclass(frozen=True)
class SnapshotPreset:
    """What a generated snapshot depends on, besides the seed."""

    machines: int
    """Number of machines."""
    in_use: float
    """Share of the cores in use."""
    turnover: float = 1.0
    """Virtual machines that leave again while the cluster fills, per one that stays."""


PRESETS = MappingProxyType(
    {
        "snapshot": SnapshotPreset(machines=280, in_use=0.92),
        "snapshot-small": SnapshotPreset(machines=12, in_use=0.85),
        "snapshot-large": SnapshotPreset(machines=1176, in_use=0.88),
    }
)


def generate_snapshot(preset: str, seed: int, machines: int | None = None) -> Snapshot:
    """The snapshot of a preset, in its own size or another."""
    if preset not in PRESETS:
        raise unknown_name("snapshot", preset, PRESETS)
    chosen = PRESETS[preset]
    count = chosen.machines if machines is None else machines
    if count < 1:
        raise UsageError(f"a snapshot of {count} machines is none")
    filling = _Filling(count, np.random.default_rng(seed))
    goal = round(chosen.in_use * count * 2 * NUMA_CORES)
    filling.fill(goal)
    for _ in range(round(chosen.turnover * filling.present)):
        filling.remove_one()
        filling.fill(goal)
    return filling.snapshot(f"{preset}-{seed}")


class _Filling:
    """A cluster while virtual machines come and go."""

    def __init__(self, machines: int, rng: np.random.Generator) -> None:
        self._rng = rng
        self._free = np.full((machines, 2), NUMA_CORES, dtype=np.int64)
        self._vms: list[tuple[int, bool, int, int]] = []  # cores, double, machine, NUMA node
        self._shares = np.array([share for _, _, share in _FLAVOURS])
        self._shares /= self._shares.sum()

    @property
    def present(self) -> int:
        """How many run now."""
        return len(self._vms)

    def fill(self, goal: int) -> None:
        """Let virtual machines arrive until `goal` cores are in use, or one finds no room."""
        while int(self._free.size * NUMA_CORES - self._free.sum()) < goal:
            cores, double, _ = _FLAVOURS[self._rng.choice(len(_FLAVOURS), p=self._shares)]
            room = self._free >= cores
            places = np.flatnonzero(room.all(axis=1)) * 2 if double else np.flatnonzero(room.ravel())
            if not places.size:
                if cores == min(flavour[0] for flavour in _FLAVOURS):
                    return
                continue
            place = int(self._rng.choice(places))
            machine, numa = place // 2, 0 if double else place % 2
            self._take(cores, double, machine, numa)
            self._vms.append((cores, double, machine, numa))

    def remove_one(self) -> None:
        """Somebody leaves, by lot."""
        if self._vms:
            place = int(self._rng.integers(len(self._vms)))
            self._vms[place], self._vms[-1] = self._vms[-1], self._vms[place]
            cores, double, machine, numa = self._vms.pop()
            self._take(-cores, double, machine, numa)

    def _take(self, cores: int, double: bool, machine: int, numa: int) -> None:
        if double:
            self._free[machine] -= cores
        else:
            self._free[machine, numa] -= cores

    def snapshot(self, name: str) -> Snapshot:
        """The cluster as it stands."""
        machines = self._free.shape[0]
        total = np.empty((machines, 2, 2), dtype=np.int64)
        total[:, :] = NUMA_CORES, NUMA_MEMORY
        free = np.empty_like(total)
        free[:, :, CPU] = self._free
        free[:, :, 1] = NUMA_MEMORY - (NUMA_CORES - self._free) * MIB_PER_CORE
        columns = np.array(self._vms, dtype=np.int64).reshape(-1, 4)
        return Snapshot(
            name=name,
            machines=tuple(f"pm-{i}" for i in range(machines)),
            vms=tuple(f"vm-{i}" for i in range(len(columns))),
            total=total,
            free=free,
            demand=np.column_stack([columns[:, 0], columns[:, 0] * MIB_PER_CORE]),
            double=columns[:, 1] == 1,
            machine=columns[:, 2],
            numa=columns[:, 3],
            movable=np.ones(len(columns), dtype=np.bool_),
            group=np.zeros(machines, dtype=np.int64),
        )
