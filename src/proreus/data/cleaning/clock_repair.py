"""Watches the clock of every pod or service: late rows pass, leaps ahead and jumps back are dealt with.

A row far ahead of its clock is either the end of a gap or a spike: a single wrong time. The next row of the
same clock tells, so such a row is held until then, one a clock at the most. A row that is behind the latest
time by more than the lateness, and not because of a spike, has jumped back.

The result does not depend on how the rows are cut into batches: all that is carried over is the latest
time, the shift and the held row of each clock.
"""

from __future__ import annotations

from typing import NamedTuple, assert_never

import numpy as np
import numpy.typing as npt

from proreus.data.cleaning.options import CleaningOptions
from proreus.data.cleaning.report import CleaningRule, Report
from proreus.data.cleaning.rows import NO_ROWS, Rows, join
from proreus.model.errors import InputError

NEVER = np.iinfo(np.int64).min
MOST_JUMPS = 1_000
_HINT = " (see --late and --clock rebase or drop)"

Times = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class TimedRows(NamedTuple):
    """Rows on a mended clock."""

    rows: Rows
    latest: Times
    """The latest time that each row's clock had shown once it was read."""
    known: Times
    """The line with which each row's time was settled: its own, or that of the row it was held for."""


class _Course(NamedTuple):
    """How the rows of a batch stand to their clocks; rows are grouped by name."""

    time: Times
    before: Times
    """The latest time of the same clock before each row."""
    leap: Flags
    """So far ahead that the next row must tell whether it is a spike."""
    spike: Flags
    jump: Flags

    def part(self, rows: slice) -> _Course:
        """Some of the rows; what is written there is written here."""
        return _Course(self.time[rows], self.before[rows], self.leap[rows], self.spike[rows], self.jump[rows])


class Clock:
    """The clocks of all pods or services of one log."""

    def __init__(self, options: CleaningOptions, step: int, report: Report) -> None:
        self._late, self._report = options.late_us, report
        self._step = step
        """How long after the latest row a row stands that a rebase moves there."""
        self._ahead = self._late + step
        """How far ahead a row may be that needs no second look."""
        self._policy = options.repairs.clock
        self._latest: Times = np.zeros(0, np.int64)
        self._shift: Times = np.zeros(0, np.int64)
        self._jumps = 0
        self._held = NO_ROWS
        """As they were read, at most one a clock."""

    def check(self, rows: Rows, names: int) -> TimedRows:
        """The rows whose times are settled, in the order of the file within each clock."""
        grown = names - len(self._latest)
        self._latest = np.concatenate([self._latest, np.full(grown, NEVER)])
        self._shift = np.concatenate([self._shift, np.zeros(grown, np.int64)])
        if len(self._held.line):
            rows = join([self._held, rows])
        order = np.argsort(rows.name, kind="stable")
        name, line = rows.name[order], rows.line[order]
        moved = self._shift[name] != 0
        course = self._course(name, rows.time[order] + self._shift[name], line, moved)
        last = np.concatenate([name[1:] != name[:-1], [True]])
        hold = course.leap & last
        keep = ~(course.spike | course.jump) if self._policy != "rebase" else np.ones(len(name), np.bool_)
        self._tell(course, line, moved & ~hold, keep & ~hold)
        keep &= ~hold
        latest = np.maximum(course.before, course.time)
        np.maximum.at(self._latest, name[keep], latest[keep])
        self._held = rows.pick(order[hold]) if hold.any() else NO_ROWS
        known = np.where(course.leap, np.roll(line, -1), line)
        back = np.empty_like(order)
        back[order] = np.arange(len(order))
        timed = TimedRows(rows._replace(time=course.time[back]), latest[back], known[back])
        stay = keep[back]
        if stay.all():
            return timed
        return TimedRows(timed.rows.pick(stay), timed.latest[stay], timed.known[stay])

    def release(self) -> TimedRows:
        """The rows still held when the file has ended: nothing speaks against their times."""
        held, self._held = self._held, NO_ROWS
        shift = self._shift[held.name]
        self._report.repaired(CleaningRule.CLOCK_JUMP, held.line[shift != 0])
        time = held.time + shift
        self._latest[held.name] = time
        return TimedRows(held._replace(time=time), time, held.line)

    def _tell(self, course: _Course, line: Times, moved: Flags, keep: Flags) -> None:
        match self._policy:
            case "refuse":
                self._report.refuse(CleaningRule.CLOCK_SPIKE, line[course.spike], _HINT)
                self._report.refuse(CleaningRule.CLOCK_JUMP, line[course.jump], _HINT)
            case "drop":
                self._report.dropped(CleaningRule.CLOCK_SPIKE, line[course.spike])
                self._report.dropped(CleaningRule.CLOCK_JUMP, line[course.jump])
            case "rebase":
                self._report.repaired(CleaningRule.CLOCK_SPIKE, line[course.spike])
                self._report.repaired(CleaningRule.CLOCK_JUMP, line[moved & ~course.spike])
            case _:
                assert_never(self._policy)
        self._report.repaired(CleaningRule.LATE, line[keep & (course.time < course.before)])

    def _course(self, name: Times, time: Times, line: Times, moved: Flags) -> _Course:
        """Judges all rows at once; clocks that jump back somewhere are walked row by row."""
        before = self._running(name, time)
        jump = self._jumped(time, before)
        leap = (before != NEVER) & (time > before + self._ahead)
        course = _Course(time, before, leap, np.zeros(len(name), np.bool_), jump)
        for clock in np.unique(name[jump]).tolist():
            begin, end = (int(np.searchsorted(name, clock, side)) for side in ("left", "right"))
            part = slice(begin, end)
            self._walk(clock, course.part(part), line[part], moved[part])
        return course

    def _walk(self, clock: int, course: _Course, line: Times, moved: Flags) -> None:
        """One clock's rows in turn; writes into the columns."""
        times, rebases = course.time.tolist(), self._policy == "rebase"
        latest, shift = int(self._latest[clock]), 0
        for i, time in enumerate(times):
            now = time + shift
            leap = latest != NEVER and now > latest + self._ahead
            spike = leap and i + 1 < len(times) and self._returns(latest, now, times[i + 1] + shift)
            jump = latest != NEVER and now < latest - self._late
            if spike and rebases:
                # Where it would have stood, but not behind the row that follows.
                now = min(latest + self._step, max(latest, times[i + 1] + shift))
            if jump and rebases:
                shift += latest + self._step - now
                now = latest + self._step
                moved[i:] = True
                self._count_jump(int(line[i]))
            course.time[i], course.before[i] = now, latest
            course.leap[i], course.spike[i], course.jump[i] = leap, spike, jump
            if rebases or not (spike or jump):
                latest = max(latest, now)
        self._shift[clock] += shift

    def _returns(self, latest: int, now: int, after: int) -> bool:
        """Whether the row after a leap is back where time was, which makes the leap a spike."""
        return latest - self._late <= after < now - self._late and after - latest <= now - after

    def _count_jump(self, line: int) -> None:
        self._jumps += 1
        if self._jumps > MOST_JUMPS:
            raise InputError(
                f"over {MOST_JUMPS} clock jumps: this log is not in the order of time",
                file=self._report.file, line=line,
            )  # fmt: skip

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
