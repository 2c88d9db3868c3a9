"""State of lanes as columns that stay where they are: a captured graph finds them at the address it knows.

What is one figure a lane is replaced while a step is under way, in a copy of its dataclass, and written back
at the end of the step.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from torch import Tensor


def write_back(kept: Any, work: Any) -> None:
    """Write the columns of a working copy, a dataclass of tensors, to where they belong."""
    for column in fields(kept):
        before, after = getattr(kept, column.name), getattr(work, column.name)
        if after is not before:
            before.copy_(after)


def named_columns(state: Any) -> dict[str, Tensor]:
    """All columns of a dataclass of dataclasses of tensors, as "part.column"."""
    return {
        f"{part.name}.{column.name}": getattr(getattr(state, part.name), column.name)
        for part in fields(state)
        for column in fields(getattr(state, part.name))
    }
