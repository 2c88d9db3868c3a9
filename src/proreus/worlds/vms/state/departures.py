"""When machines leave: a heap of moments in every lane, the earliest on top. The caller counts them."""

from __future__ import annotations

from proreus.kernels.arrays import F64, I32
from proreus.kernels.jit import compiled_inline


@compiled_inline
def note_departure(leaving: F64, leaver: I32, lane: int, queued: int, who: tuple[float, int]) -> None:
    """Put who = (moment, machine) into a heap of `queued`; leaving [L, H] moments, leaver [L, H] machines."""
    moment, machine = who
    at = queued
    while at > 0:
        above = (at - 1) // 2
        if leaving[lane, above] <= moment:
            break
        leaving[lane, at], leaver[lane, at] = leaving[lane, above], leaver[lane, above]
        at = above
    leaving[lane, at], leaver[lane, at] = moment, machine


@compiled_inline
def first_to_leave(leaving: F64, leaver: I32, lane: int, queued: int) -> int:
    """Take the first out of a heap of `queued`; who comes first among equals changes nothing."""
    first = leaver[lane, 0]
    size = queued - 1
    moment, machine = leaving[lane, size], leaver[lane, size]
    at = 0
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and leaving[lane, below + 1] < leaving[lane, below]:
            below += 1
        if leaving[lane, below] >= moment:
            break
        leaving[lane, at], leaver[lane, at] = leaving[lane, below], leaver[lane, below]
        at = below
    leaving[lane, at], leaver[lane, at] = moment, machine
    return int(first)
