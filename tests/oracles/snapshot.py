"""Snapshots in plain Python, counted anew from the list of virtual machines at every question."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st

from proreus.worlds.rebalance.snapshots.model import Snapshot

Place = tuple[int, int]
Move = tuple[int, int, int]


class PlainSnapshot:
    """Who is where; everything else is recounted from it."""

    def __init__(self, snapshot: Snapshot, size: int, *, within_clusters: bool) -> None:
        self.snapshot, self.size, self.within = snapshot, size, within_clusters
        self.places: list[Place] = list(zip(snapshot.machine.tolist(), snapshot.numa.tolist(), strict=True))
        # What nobody listed explains stays in use, wherever the listed ones go.
        self.hidden = {
            (p, k, r): int(snapshot.total[p, k, r] - snapshot.free[p, k, r]) - self._in_use(p, k, r)
            for p in range(len(snapshot.machines))
            for k in (0, 1)
            for r in (0, 1)
        }

    def _in_use(self, p: int, k: int, r: int) -> int:
        snapshot = self.snapshot
        return sum(
            int(snapshot.demand[v, r])
            for v, (machine, numa) in enumerate(self.places)
            if machine == p and (snapshot.double[v] or numa == k)
        )

    def free(self, p: int, k: int, r: int) -> int:
        """Recounted."""
        return int(self.snapshot.total[p, k, r]) - self.hidden[p, k, r] - self._in_use(p, k, r)

    def fragments(self) -> int:
        """Cores beyond whole pieces."""
        machines = range(len(self.snapshot.machines))
        return sum(self.free(p, k, 0) % self.size for p in machines for k in (0, 1))

    def pieces(self) -> int:
        """Whole pieces."""
        machines = range(len(self.snapshot.machines))
        return sum(self.free(p, k, 0) // self.size for p in machines for k in (0, 1))

    def legal(self, move: Move) -> bool:
        """Whether the migration is allowed, from first principles."""
        v, p, numa = move
        snapshot, (here, _) = self.snapshot, self.places[v]
        if not snapshot.movable[v] or here == p or (snapshot.double[v] and numa):
            return False
        if self.within and snapshot.group[here] != snapshot.group[p]:
            return False
        parts = (0, 1) if snapshot.double[v] else (numa,)
        return all(self.free(p, k, r) >= snapshot.demand[v, r] for k in parts for r in (0, 1))

    def moves(self) -> list[Move]:
        """Every legal migration."""
        snapshot = self.snapshot
        every = product(range(len(snapshot.vms)), range(len(snapshot.machines)), (0, 1))
        return [move for move in every if self.legal(move)]

    def carry_out(self, move: Move) -> None:
        """Put it there."""
        v, p, numa = move
        self.places[v] = (p, numa)

    def most_pieces(self, budget: int) -> int:
        """The best that any sequence of at most `budget` migrations reaches, by trying all of them."""
        best = self.pieces()
        if budget:
            for move in self.moves():
                before = self.places[move[0]]
                self.carry_out(move)
                best = max(best, self.most_pieces(budget - 1))
                self.places[move[0]] = before
        return best


@st.composite
def snapshots(draw: st.DrawFn, machines: int = 4, vms: int = 10, cores: int = 16) -> Snapshot:
    """Small crowded clusters; memory is sometimes what runs out, some machines hide use, some VMs are
    fixed."""
    count = draw(st.integers(1, machines))
    total = np.zeros((count, 2, 2), dtype=np.int64)
    total[:, :, 0] = draw(st.sampled_from((cores, cores // 2 + 1)))
    total[:, :, 1] = draw(st.sampled_from((1000, 30)))
    free = total.copy()
    rows: list[tuple[int, int, bool, int, int, bool]] = []
    for _ in range(draw(st.integers(0, vms))):
        cpu, memory = draw(st.sampled_from(((2, 4), (4, 8), (3, 1), (8, 16), (5, 10))))
        double = draw(st.sampled_from((False, False, True)))
        p, numa = draw(st.integers(0, count - 1)), 0 if double else draw(st.integers(0, 1))
        parts = [0, 1] if double else [numa]
        if (free[p, parts] >= (cpu, memory)).all():
            free[p, parts] -= (cpu, memory)
            rows.append((cpu, memory, double, p, numa, draw(st.sampled_from((True, True, True, False)))))
    if draw(st.booleans()):
        free[0, 0, 1] = free[0, 0, 1] // 2
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6)
    return Snapshot(
        name="random",
        machines=tuple(f"pm{i}" for i in range(count)),
        vms=tuple(f"vm{i}" for i in range(len(rows))),
        total=total,
        free=free,
        demand=columns[:, :2],
        double=columns[:, 2] == 1,
        machine=columns[:, 3],
        numa=columns[:, 4],
        movable=columns[:, 5] == 1,
        group=np.array(draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)), dtype=np.int64),
    )
