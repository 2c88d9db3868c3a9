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


class _Groups(NamedTuple):
    """The groups of typical pods of every node's model, [Q, E, N] each."""

    num: Tensor
    milli: Tensor
    whole: Tensor  # float64
    mass: Tensor  # float64: of the group, those for whom the CPU is enough


def _groups(typical: TypicalTables, model: Tensor, cpu_free: Tensor) -> _Groups:
    passed = torch.searchsorted(typical.threshold, cpu_free.contiguous(), right=True)
    columns = (typical.num[model], typical.milli[model], typical.whole[model])
    mass = typical.mass.transpose(1, 2)[model, passed]
    return _Groups(*(column.movedim(-1, 0) for column in (*columns, mass)))


def _summed(terms: Tensor) -> Tensor:
    """[Q, ..] -> [..], one after the other: the order of the host's sum."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def fragments(typical: TypicalTables, model: Tensor, cpu_free: Tensor, left: Tensor) -> Fragments:
    """Of nodes with so much CPU and so much of each device left; left: [.., N, G], the others [.., N]."""
    idle, (num, milli, whole, mass) = left.sum(-1), _groups(typical, model, cpu_free)
    small = left < milli[..., None]  # [Q, E, N, G]
    fits = left.shape[-1] - small.sum(-1) >= num
    too_small = (left * small).sum(-1)
    hosted, for_cpu, for_room, for_devices = _summed(
        torch.stack(
            [
                mass * fits,
                (whole - mass) * idle * fits,
                mass * too_small * fits,
                whole * idle * ~fits,
            ],
            1,
        )
    )
    return Fragments(idle * (1.0 - hosted) + for_room, for_cpu, for_devices, for_room)


def fragments_by_device(
    typical: TypicalTables, model: Tensor, cpu_free: Tensor, left: Tensor, milli: Tensor
) -> Tensor:
    """float64[E, N, G]: the whole if `milli`, [E, N], were taken of that device."""
    share = milli[..., None]
    idle = (left.sum(-1) - milli)[..., None]
    rest = left - share
    num, need, _, mass = (column[..., None] for column in _groups(typical, model, cpu_free))
    small, small_after = left < need, rest < need  # [Q, E, N, G]
    held = left * small
    # All devices but this one, and this one as it would be.
    fitting = left.shape[-1] - small.sum(-1, keepdim=True) + small.long() - small_after.long()
    too_small = held.sum(-1, keepdim=True) - held + rest * small_after
    hosting = mass * (fitting >= num)
    hosted, unusable = _summed(torch.stack([hosting, hosting * too_small], 1))
    return (idle * (1.0 - hosted) + unusable).masked_fill(idle == 0, 0.0)
