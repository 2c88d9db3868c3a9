"""Now, as both clocks show it."""

from __future__ import annotations

from typing import NamedTuple


class Moment(NamedTuple):
    """What is written down is of the wall clock; what is waited for is of the steady one: it cannot jump."""

    wall: float
    steady: float
