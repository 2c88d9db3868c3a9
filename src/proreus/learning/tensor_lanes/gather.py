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
    return column.gather(1, _wide(column, index))[:, 0]


def put(column: Tensor, index: Tensor, value: Tensor | int, where: Tensor) -> None:
    """column[e, index[e]] = value[e], or a number, in the lanes where it is said; in place."""
    wide = _wide(column, index)
    before = column.gather(1, wide)
    chosen = where.reshape(-1, *[1] * (column.dim() - 1))
    if isinstance(value, int):
        column.scatter_(1, wide, before.masked_fill(chosen, value))
        return
    column.scatter_(1, wide, torch.where(chosen, value.to(column.dtype)[:, None], before))


def add(column: Tensor, index: Tensor, value: Tensor) -> None:
    """column[e, index[e]] += value[e]; a lane that is not meant adds nothing. In place."""
    column.scatter_add_(1, _wide(column, index), value.to(column.dtype)[:, None])


def _wide(column: Tensor, index: Tensor) -> Tensor:
    """An index [E] as wide as what it reads of a column: [E, 1, ..]."""
    return index.reshape(-1, *[1] * (column.dim() - 1)).expand(-1, 1, *column.shape[2:])


def first_by(among: Tensor, keys: Keys) -> tuple[Tensor, Tensor]:
    """(whether there is any, which: [E]) of the entries [E, P] that come first by the keys, ascending.

    No two entries have all keys equal: what `argmin` takes among equals differs between devices.
    """
    for key in keys:
        most = torch.inf if key.is_floating_point() else torch.iinfo(key.dtype).max
        among = among & (key == key.masked_fill(~among, most).amin(1, keepdim=True))
    return among.any(1), among.byte().argmax(1)


def reset(column: Tensor, lanes: Tensor, fresh: Tensor | float) -> None:
    """Give some lanes, bool[E], their first contents again; in place."""
    wide = lanes.reshape(-1, *[1] * (column.dim() - 1))
    if isinstance(fresh, Tensor):
        column.copy_(torch.where(wide, fresh, column))
    else:
        column.masked_fill_(wide, fresh)
