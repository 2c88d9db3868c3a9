"""A run as frames: how full its servers, nodes or machines were, and what moved between them.

Worlds record states and moves as they play; `replay_of` makes few and small frames of them, `player` puts
them into the report. Nothing here knows which world it was: boxes have compartments, those have gauges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import F64

FULL = 200
"""The level of a gauge at 100 %; there is room above it, to 127 %."""
ABSENT = 255
"""The level of every gauge of a box that is not there."""
MOST_FRAMES = 288
"""After the first: a day of windows."""
MOST_BYTES = 48_000
"""Of the changes of one replay; where they take more, there are fewer frames."""
MOST_BOXES = 1_250
"""That are drawn."""
OUTSIDE = -1
"""In place of a box: where things come from that were nowhere before."""

Levels = NDArray[np.uint8]
"""[boxes, compartments, gauges], in a replay [frames, boxes, compartments, gauges]."""
Tell = Callable[[int, int], str]
"""In words: the moment of a state, given the number of the state shown before (-1: none) and its own."""

_STRETCH = 256


@dataclass(frozen=True)
class Move:
    """Something went from one box to another."""

    item: str
    source: int
    """A box, or OUTSIDE."""
    target: int


@dataclass(frozen=True)
class Stage:
    """What a replay plays on."""

    place: str
    """What a box is: "server"."""
    boxes: tuple[str, ...]
    """Their names."""
    gauges: tuple[str, ...]
    """What is measured in each compartment of a box: "CPU", "memory"."""
    part: str = ""
    """What a compartment is, where a box has several: "NUMA node"."""
    colour: int = -1
    """The gauge that colours boxes too many for bars; -1: whichever stands highest."""
    limit: float = 1.0
    """The share above which a gauge is too high."""
    idle: str = ""
    """What is said where nothing moved."""
    all_moves: bool = True
    """Whether a frame tells all that moved since the one before it, or the last of it alone."""
    clock: bool = False
    """Whether moments are seconds of a clock."""
    groups: tuple[str, ...] = ()
    """Where boxes come, go and change sides: those of a group stand together, under its name."""
    states: tuple[str, ...] = ()
    """What a box of a group can be doing. With groups, levels have two gauges more than are drawn: the number
    of the group and that of the state."""

    @property
    def depth(self) -> int:
        """The gauges of levels."""
        return len(self.gauges) + (2 if self.groups else 0)


@dataclass(frozen=True, eq=False)
class Replay:
    """The frames of one run."""

    stage: Stage
    """Its first boxes are those that are drawn; behind them come others that moves name."""
    levels: Levels
    """[frames, drawn boxes, compartments, gauges], FULL is 100 %; the last frame is the end of the run."""
    moments: tuple[str, ...]
    """[frames] "window 12"."""
    moves: tuple[tuple[Move, ...], ...]
    """[frames] what moved since the frame before."""
    left_out: int
    """Boxes that are not drawn."""
    seconds: F64 | None
    """[frames] since the run began, where it has a clock."""


def levels_of(shares: F64) -> Levels:
    """Shares of any shape as levels."""
    return np.clip(np.rint(shares * FULL), 0, ABSENT - 1).astype(np.uint8)


def replay_of(
    stage: Stage,
    states: Sequence[Levels],
    moves: Sequence[Sequence[Move]],
    tell: Tell,
    seconds: F64 | None = None,
) -> Replay:
    """Frames of the states that a run went through; moves[k] led to states[k], after seconds[k]."""
    drawn, others = _named(stage, moves)
    most = MOST_FRAMES
    while True:
        kept = spaced(len(states), most)
        levels = np.stack([states[at][drawn] for at in kept])
        if most <= 2 or sum(map(len, changes(levels))) <= MOST_BYTES:
            break
        most //= 2
    named = [*drawn, *others]
    place = {OUTSIDE: OUTSIDE, **{box: at for at, box in enumerate(named)}}
    before = [-1, *kept[:-1]]
    return Replay(
        stage=replace(stage, boxes=tuple(stage.boxes[box] for box in named)),
        levels=levels,
        moments=tuple(tell(*pair) for pair in zip(before, kept, strict=True)),
        moves=tuple(
            tuple(Move(move.item, place[move.source], place[move.target]) for move in frame_moves)
            for frame_moves in _gathered(moves, kept, all_moves=stage.all_moves)
        ),
        left_out=len(stage.boxes) - len(drawn),
        seconds=None if seconds is None else seconds[kept],
    )


def changes(levels: Levels) -> list[bytes]:
    """Each frame as pairs of bytes: how many cells stay as they were, the level of the next one.

    Before the first frame all is 0. Every 256th cell is told whether it changes or not: no step is too long.
    """
    frames = levels.reshape(len(levels), -1)
    before = np.zeros_like(frames[0])
    changes = []
    for frame in frames:
        changed = frame != before
        changed[::_STRETCH] = True
        cells = np.flatnonzero(changed)
        skips = np.diff(cells, prepend=-1) - 1
        changes.append(np.stack([skips.astype(np.uint8), frame[cells]], axis=1).tobytes())
        before = frame
    return changes


def spaced(count: int, most: int) -> list[int]:
    """The first, the last and others at equal steps: about `most` numbers below `count`."""
    step = max(-(-(count - 1) // most), 1)
    return sorted({*range(0, count, step), count - 1})


def _gathered(
    moves: Sequence[Sequence[Move]], kept: Sequence[int], *, all_moves: bool
) -> list[Sequence[Move]]:
    """The moves of each kept state and of those left out before it."""
    if not all_moves:
        return [moves[at] for at in kept]
    begins = [0, *(at + 1 for at in kept[:-1])]
    return [
        [move for state in moves[begin : at + 1] for move in state]
        for begin, at in zip(begins, kept, strict=True)
    ]


def _touched(moves: Sequence[Sequence[Move]]) -> list[int]:
    """Boxes that something left or entered, in the order in which that happened."""
    touched = (box for state in moves for move in state for box in (move.source, move.target))
    return [box for box in dict.fromkeys(touched) if box != OUTSIDE]


def _named(stage: Stage, moves: Sequence[Sequence[Move]]) -> tuple[list[int], list[int]]:
    """The boxes to draw, in order, and others that moves touch: where there are too many to draw them all."""
    count = len(stage.boxes)
    if count <= MOST_BOXES:
        return list(range(count)), []
    touched = _touched(moves)
    drawn = list(dict.fromkeys([*touched, *range(count)]))[:MOST_BOXES]
    return sorted(drawn), touched[MOST_BOXES:]
