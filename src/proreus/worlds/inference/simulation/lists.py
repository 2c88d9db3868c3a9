"""Ordered lists side by side, one a row: short ones, whose front is what is looked at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import packable


@packable
class Lists(NamedTuple):
    """Rows of numbers; each begins somewhere in its cells. Who fills them sees to the room."""

    cells: I64  # [rows, room]
    begin: I64  # [rows]
    size: I64  # [rows]


def new_lists(rows: int, room: int) -> Lists:
    """Empty ones."""
    zero = np.zeros(rows, dtype=np.int64)
    return Lists(np.zeros((rows, room), dtype=np.int64), zero, zero.copy())


def with_room(lists: Lists, room: int) -> Lists:
    """The same numbers in longer rows."""
    grown = new_lists(lists.size.size, room)
    for row, (begin, size) in enumerate(zip(lists.begin, lists.size, strict=True)):
        grown.cells[row, :size] = lists.cells[row, begin : begin + size]
    grown.size[:] = lists.size
    return grown


@compiled
def at(lists: Lists, row: int, place: int) -> int:
    """The number at that place."""
    return int(lists.cells[row, lists.begin[row] + place])


@compiled
def append(lists: Lists, row: int, value: int) -> None:
    """At the end."""
    insert(lists, row, lists.size[row], value)


@compiled
def insert(lists: Lists, row: int, place: int, value: int) -> None:
    """Before what stands there."""
    cells, begin, size = lists.cells, lists.begin[row], lists.size[row]
    if begin + size == cells.shape[1]:  # at the end of its cells: move to their beginning
        for step in range(size):
            cells[row, step] = cells[row, begin + step]
        begin = 0
    if place == 0 and begin > 0:
        begin -= 1
    else:
        for step in range(begin + size, begin + place, -1):
            cells[row, step] = cells[row, step - 1]
    cells[row, begin + place] = value
    lists.begin[row] = begin
    lists.size[row] = size + 1


@compiled
def remove_at(lists: Lists, row: int, place: int) -> None:
    """What stands there."""
    cells, begin, size = lists.cells, lists.begin[row], lists.size[row]
    if place == 0:
        lists.begin[row] = begin + 1
    else:
        for step in range(begin + place, begin + size - 1):
            cells[row, step] = cells[row, step + 1]
    lists.size[row] = size - 1


@compiled
def remove(lists: Lists, row: int, value: int) -> bool:
    """The first of that value; false: there is none."""
    cells, begin, size = lists.cells, lists.begin[row], lists.size[row]
    for place in range(size):
        if cells[row, begin + place] == value:
            remove_at(lists, row, place)
            return True
    return False
