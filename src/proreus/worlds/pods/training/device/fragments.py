"""How much idle GPU share typical pods could not use: `state.fragmentation` over tensors.

Sums run over the groups of typical pods in their order, as the host's do: the figures are the same to the
last bit where the device does not fuse products and sums.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from proreus.worlds.pods.training.device.tables import TypicalTables


class Fragments(NamedTuple):
    """float64[E, N]: the whole, and its parts for lack of CPU, of enough devices, of room on each."""

    whole: Tensor
    for_cpu: Tensor
    for_devices: Tensor
    for_room: Tensor


def fragments(typical: TypicalTables, model: Tensor, cpu_free: Tensor, left: Tensor) -> Fragments:
    """Of nodes with so much CPU and so much of each device left; left: [E, N, G], the others [E, N]."""
    idle = left.sum(-1)
    passed = torch.searchsorted(typical.threshold, cpu_free.contiguous(), right=True)
    zero = torch.zeros_like(idle, dtype=torch.float64)
    hosted, for_cpu, for_devices, for_room = zero, zero, zero, zero
    for q in range(typical.num.shape[1]):
        num, milli, whole = typical.num[model, q], typical.milli[model, q], typical.whole[model, q]
        small = left < milli[..., None]
        fits = (~small).sum(-1) >= num
        too_small = (left * small).sum(-1)
        mass = typical.mass[model, q, passed]
        hosted = torch.where(fits, hosted + mass, hosted)
        for_cpu = torch.where(fits, for_cpu + (whole - mass) * idle, for_cpu)
        for_room = torch.where(fits, for_room + mass * too_small, for_room)
        for_devices = torch.where(fits, for_devices, for_devices + whole * idle)
    return Fragments(idle * (1.0 - hosted) + for_room, for_cpu, for_devices, for_room)


def fragments_by_device(
    typical: TypicalTables, model: Tensor, cpu_free: Tensor, left: Tensor, milli: Tensor
) -> Tensor:
    """float64[E, N, G]: the whole if `milli`, [E, N], were taken of that device."""
    share = milli[..., None]
    idle = (left.sum(-1) - milli)[..., None]
    passed = torch.searchsorted(typical.threshold, cpu_free.contiguous(), right=True)
    hosted = torch.zeros_like(left, dtype=torch.float64)
    unusable = torch.zeros_like(hosted)
    for q in range(typical.num.shape[1]):
        need = typical.milli[model, q][..., None]
        small, small_after = left < need, left - share < need
        held = left * small
        fitting = (~small).sum(-1, keepdim=True) - (~small).long() + (~small_after).long()
        too_small = held.sum(-1, keepdim=True) - held + (left - share) * small_after
        fits = fitting >= typical.num[model, q][..., None]
        mass = typical.mass[model, q, passed][..., None]
        hosted = torch.where(fits, hosted + mass, hosted)
        unusable = torch.where(fits, unusable + mass * too_small, unusable)
    return torch.where(idle == 0, 0.0, idle * (1.0 - hosted) + unusable)
