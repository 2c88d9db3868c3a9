"""Watches the clock of every pod or service: rows that come a little late pass, jumps back are dealt with.

The result does not depend on how the rows are cut into batches: all that is carried over is the latest
time and the shift of each clock.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

import numpy as np
import numpy.typing as npt

from proreus.model.errors import InputError
from proreus.traces.cleaning_options import CleaningOptions
from proreus.traces.cleaning_report import Report, Rule
from proreus.traces.log_rows import Rows

NEVER = np.iinfo(np.int64).min
MOST_JUMPS = 1_000

Times = npt.NDArray[np.int64]


class Timed(NamedTuple):
    """Rows on a mended clock, and the latest time that each row's clock had shown once it was read."""

    rows: Rows
    latest: Times


class Clock:
    """The clocks of all pods or services of one log."""

    def __init__(self, options: CleaningOptions, step: int, report: Report) -> None:
        self._late, self._report = options.late_us, report
        self._step = step
        """How long after the latest row a row stands that a rebase moves there."""
        self._policy = options.repairs.clock
        self._latest: Times = np.zeros(0, np.int64)
        self._shift: Times = np.zeros(0, np.int64)
        self._jumps = 0

    def check(self, rows: Rows, names: int) -> Timed:
        """The rows that stay, in the order of the file."""
        grown = names - len(self._latest)
        self._latest = np.concatenate([self._latest, np.full(grown, NEVER)])
        self._shift = np.concatenate([self._shift, np.zeros(grown, np.int64)])
        order = np.argsort(rows.name, kind="stable")
        name, line = rows.name[order], rows.line[order]
        time = rows.time[order] + self._shift[name]
        moved = self._shift[name] != 0
        before = self._running(name, time)
        jump = self._jumped(time, before)
        keep = np.ones(len(time), np.bool_)
        if jump.any():
            match self._policy:
                case "refuse":
                    self._report.refuse(
                        Rule.CLOCK_JUMP, line[jump], " (see --late and --clock rebase or drop)"
                    )
                case "drop":
                    self._report.dropped(Rule.CLOCK_JUMP, line[jump])
                    keep = ~jump
                case "rebase":
                    before = self._rebase(name, time, line, moved)
                case _:
                    assert_never(self._policy)
        self._report.repaired(Rule.CLOCK_JUMP, line[moved & keep])
        self._report.repaired(Rule.LATE, line[keep & (time < before)])
        latest = np.maximum(before, time)
        np.maximum.at(self._latest, name, latest)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        mended = rows._replace(time=time[back])
        stay = keep[back]
        if stay.all():
            return Timed(mended, latest[back])
        return Timed(mended.pick(stay), latest[back][stay])

    def _jumped(self, time: Times, before: Times) -> npt.NDArray[np.bool_]:
        known = before != NEVER
        jumped: npt.NDArray[np.bool_] = known & (time < np.where(known, before, 0) - self._late)
        return jumped

    def _running(self, name: Times, time: Times) -> Times:
        """The latest time of the same clock before each row; rows are grouped by name."""
        first = np.concatenate([[True], name[1:] != name[:-1]])
        previous = np.where(first, self._latest[name], np.roll(time, 1))
        if (time >= previous).all():
            return previous  # all in order: nothing to search for
        # Each group gets its carried time in front. Groups are stacked upon each other, so that one running
        # maximum serves them all; it runs over ranks, for stacked times could overflow.
        group = np.cumsum(first) - 1
        place = np.arange(len(name)) + group + 1
        values = np.empty(len(name) + group[-1] + 1, np.int64)
        stack = np.empty_like(values)
        values[place], stack[place] = time, group
        values[place[first] - 1], stack[place[first] - 1] = self._latest[name[first]], group[first]
        distinct = np.unique(values)
        floor = stack * len(distinct)
        highest = np.maximum.accumulate(floor + np.searchsorted(distinct, values)) - floor
        running: Times = distinct[highest][place - 1]
        return running

    def _rebase(self, name: Times, time: Times, line: Times, moved: npt.NDArray[np.bool_]) -> Times:
        """Move each clock on after each jump, in place; returns the latest times before each row."""
        while True:
            before = self._running(name, time)
            jumps = np.flatnonzero(self._jumped(time, before))
            if not len(jumps):
                return before
            _, firsts = np.unique(name[jumps], return_index=True)
            for jump in jumps[firsts]:
                end = np.searchsorted(name, name[jump], side="right")
                shift = before[jump] + self._step - time[jump]
                time[jump:end] += shift
                moved[jump:end] = True
                self._shift[name[jump]] += shift
                self._jumps += 1
                if self._jumps > MOST_JUMPS:
                    raise InputError(
                        f"over {MOST_JUMPS} clock jumps: this log is not in the order of time",
                        file=self._report.file, line=int(line[jump]),
                    )  # fmt: skip
