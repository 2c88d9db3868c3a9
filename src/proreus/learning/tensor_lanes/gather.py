"""Single entries of columns, one a lane, and the first of many: shapes never depend on what is in them.

E lanes; a column is [E, P] or wider, an index [E]. Indices are always in range: lanes that are not meant
write back what was there.
"""

from __future__ import annotations

import torch
from torch import Tensor

Keys = tuple[Tensor, ...]


def at(column: Tensor, index: Tensor) -> Tensor:
    """column[e, index[e]] for every lane: [E, ..]."""
    if column.dim() == 2:
        return column.gather(1, index[:, None])[:, 0]
    lanes = torch.arange(column.shape[0], device=column.device)
    return column[lanes, index]


def put(column: Tensor, index: Tensor, value: Tensor, where: Tensor) -> None:
    """column[e, index[e]] = value[e] in the lanes where it is said; in place."""
    before = at(column, index)
    wide = where.reshape(-1, *[1] * (before.dim() - 1))
    _write(column, index, torch.where(wide, value.to(column.dtype), before))


def add(column: Tensor, index: Tensor, value: Tensor) -> None:
    """column[e, index[e]] += value[e]; a lane that is not meant adds nothing. In place."""
    _write(column, index, at(column, index) + value.to(column.dtype))


def _write(column: Tensor, index: Tensor, value: Tensor) -> None:
    if column.dim() == 2:
        column.scatter_(1, index[:, None], value[:, None])
        return
    lanes = torch.arange(column.shape[0], device=column.device)
    column.index_put_((lanes, index), value)


def first_by(among: Tensor, keys: Keys) -> tuple[Tensor, Tensor]:
    """(whether there is any, which: [E]) of the entries [E, P] that come first by the keys, ascending.

    Entries with equal keys go by their number: what `argmin` takes among equals differs between devices.
    """
    for key in keys:
        most = torch.inf if key.is_floating_point() else torch.iinfo(key.dtype).max
        least = torch.where(among, key, most).amin(1, keepdim=True)
        among = among & (key == least)
    places = torch.arange(among.shape[1], device=among.device)
    found = torch.where(among, places, among.shape[1]).amin(1)
    there = found < among.shape[1]
    return there, torch.where(there, found, 0)


def reset(column: Tensor, lanes: Tensor, fresh: Tensor | float) -> None:
    """Give some lanes, bool[E], their first contents again; in place."""
    wide = lanes.reshape(-1, *[1] * (column.dim() - 1))
    column.copy_(torch.where(wide, fresh, column))
