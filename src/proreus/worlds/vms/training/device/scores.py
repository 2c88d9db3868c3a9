"""The linear scorer over tensors: `encoding.place` and `policies.scorer`, every lane with weights of its own.

Features are added in their order, one after the other, as the kernel adds them: the sums are the same to the
last bit, and what is equal there is equal here. Letters as in `tables`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.worlds.vms.training.device.columns import VmState
from proreus.worlds.vms.training.device.tables import VmTables


def highest_scores(tables: VmTables, work: VmState, flavour: Tensor, fits: Tensor, weights: Tensor) -> Tensor:
    """int64[E]: the place with the highest score where the flavour [E] fits, the lowest of equals.

    fits: bool[E, 2N]; weights: float64[features, E].
    """
    features = place_features(tables, work, flavour)
    parts = features * weights[:, :, None, None]
    score = parts[0]
    for part in parts[1:]:
        score = score + part
    both = tables.flavours.double[flavour][:, None]
    score = torch.where(both[..., None], _of_fuller(tables, work, score), score).flatten(1)
    most = torch.where(fits, score, -torch.inf).amax(1, keepdim=True)
    places = torch.arange(fits.shape[1], device=fits.device)
    found = torch.where(fits & (score == most), places, fits.shape[1]).amin(1)
    return torch.where(found < fits.shape[1], found, 0)


def _of_fuller(tables: VmTables, work: VmState, score: Tensor) -> Tensor:
    """[E, N, 1]: of two nodes that give the same, what counts is the score with the fuller one as "here"."""
    share = work.clusters.free.double() / tables.servers.capacity.double()
    filled = share.sum(3)
    return torch.where(filled[:, :, :1] <= filled[:, :, 1:], score[:, :, :1], score[:, :, 1:])


def place_features(tables: VmTables, work: VmState, flavour: Tensor) -> Tensor:
    """float64[features, E, N, 2]: of each NUMA node as "here", whether the flavour fits or not."""
    free, capacity = work.clusters.free, tables.servers.capacity
    need = tables.flavours.need[flavour][:, None, None]
    both = tables.flavours.double[flavour]
    here = free - need
    there = free.flip(2) - need * both[:, None, None, None]
    left, other = here.double() / capacity.double(), there.double() / capacity.flip(1).double()
    cpu, mem = left.unbind(3)
    cpu_other, mem_other = other.unbind(3)
    node = free[..., 0] == capacity[..., 0]
    plain = [
        cpu,
        mem,
        cpu_other,
        mem_other,
        cpu * cpu,
        mem * mem,
        cpu_other * cpu_other,
        mem_other * mem_other,
        torch.minimum(cpu, mem),
        torch.minimum(cpu_other, mem_other),
        (cpu - cpu_other).abs(),
        (mem - mem_other).abs(),
        (cpu - mem).abs(),
        cpu * cpu_other,
        (node & node.flip(2)).double(),
        node.double(),
    ]
    lost, room = _lost(tables, work, here, there)
    shares = lost / room.clamp(min=1)[:, :, None, None]
    return torch.cat([torch.stack(plain), lost, shares])


def _lost(tables: VmTables, work: VmState, here: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
    """(float64[sizes, E, N, 2] places lost for typical sizes, [sizes, E] places there are for them)."""
    typical = tables.flavours.typical[0]  # the same amounts in every trace
    need = tables.flavours.need[typical][:, None, None, None]  # [sizes, 1, 1, 1, 2]
    double = tables.flavours.double[typical][:, None, None, None]
    fits_here, fits_there = (here >= need).all(4), (there >= need).all(4)  # [sizes, E, N, 2]
    after = torch.where(double, 2 * (fits_here & fits_there), fits_here.long() + fits_there.long())
    fits = (work.clusters.free >= need).all(4)
    servers = torch.arange(fits.shape[2], device=fits.device)
    fits = fits & (servers < work.runs.servers[:, None])[:, :, None]
    before = torch.where(double, 2 * (fits & fits.flip(3)), fits.long() + fits.flip(3).long())
    return (before - after).double(), before[..., 0].sum(2)
