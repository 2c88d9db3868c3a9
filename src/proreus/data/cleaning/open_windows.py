"""Holds the rows of windows that are still open, and lets them go when no more can come.

A window of a pod closes with the row that brings the pod's clock past the window's end by the lateness
that is allowed. That row is the window's trigger: windows leave in the order of their triggers, so the
order does not depend on how the rows are cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from proreus.data.cleaning.clock_repair import Clock, TimedRows
from proreus.data.cleaning.options import CleaningOptions
from proreus.data.cleaning.report import CleaningRule, Report
from proreus.data.cleaning.rows import NO_ROWS, RowReader, Rows, join
from proreus.data.cleaning.unit_repair import UnitJudge
from proreus.model.errors import InputError

_NO_WINDOW = np.iinfo(np.int64).min
Numbers = npt.NDArray[np.int64]


class OpenWindows:
    """The rows that wait for their windows to close."""

    def __init__(self, options: CleaningOptions, judge: UnitJudge, report: Report) -> None:
        self._options, self._judge, self._report = options, judge, report
        self._held = NO_ROWS
        self._seen: Numbers = np.zeros(0, np.int64)
        """Rows of each pod so far."""
        self._open: Numbers = np.zeros(0, np.int64)
        """The first window of each pod that is still open."""
        self._newly_judged: Numbers = np.zeros(0, np.int64)

    def close(self, timed: TimedRows, names: int) -> Rows:
        """Take rows in; returns those whose windows closed, by (trigger, window, pod, time, line)."""
        self._grow(names)
        name, line, opened = self._events(timed)
        self._held = join([self._held, timed.rows])
        closed, trigger = self._triggers(name, line, opened)
        np.maximum.at(self._open, name, opened)
        gone = self._take(closed, trigger)
        held = len(self._held.line)
        if held > self._options.most_held:
            raise InputError(
                f"{held} rows wait for their windows to close, --most-held is {self._options.most_held}"
                " (a shorter --window or --late holds fewer)",
                file=self._report.file,
                line=int(self._held.line.max()),
            )
        return gone

    def close_all(self, names: int) -> Rows:
        """The rows that still wait, once the file has ended."""
        self._grow(names)
        if self._judge.needed:
            young = self._seen[self._held.name] < self._judge.needed
            self._judge.learn(self._held.pick(young), names)
        count = len(self._held.line)
        return self._take(np.ones(count, np.bool_), np.zeros(count, np.int64))

    def _grow(self, names: int) -> None:
        grown = names - len(self._seen)
        self._seen = np.concatenate([self._seen, np.zeros(grown, np.int64)])
        self._open = np.concatenate([self._open, np.full(grown, _NO_WINDOW)])

    def _events(self, timed: TimedRows) -> tuple[Numbers, Numbers, Numbers]:
        """(pod, line, first window still open after it) of the rows that close windows; by pod, then line.

        The line is the one with which the row was known: not its own where it was held for the next.
        """
        order = np.argsort(timed.rows.name, kind="stable")
        name, line = timed.rows.name[order], timed.known[order]
        first = np.concatenate([[True], name[1:] != name[:-1]])
        starts = np.flatnonzero(first)
        group = np.cumsum(first) - 1
        seen = self._seen[name] + np.arange(len(name)) - starts[group] + 1
        self._seen[name] = seen  # the last of equal indices wins, which is the highest count
        opened = (timed.latest[order] - self._options.late_us) // self._options.window_us
        before = np.where(first, self._open[name], np.roll(opened, 1))
        judged = seen >= self._judge.needed
        event = judged & ((opened > before) | (seen == self._judge.needed))
        self._newly_judged = name[seen == self._judge.needed]
        return name[event], line[event], opened[event]

    def _triggers(
        self, name: Numbers, line: Numbers, opened: Numbers
    ) -> tuple[npt.NDArray[np.bool_], Numbers]:
        """(whether it leaves, line of its trigger) for each held row."""
        held = self._held
        if len(self._newly_judged):
            self._judge.learn(held.pick(np.isin(held.name, self._newly_judged)), len(self._seen))
        count = len(held.line)
        if not len(name):
            return np.zeros(count, np.bool_), np.zeros(count, np.int64)
        window = held.time // self._options.window_us
        low = min(int(window.min()), int(opened.min()))
        span = max(int(window.max()), int(opened.max())) - low + 2
        # Within a pod events open ever later windows: one search over (pod, window) finds the first that
        # closes a row. Pods are below 2**18 and windows of a second or more below 2**35: this fits.
        keys = name * span + (opened - low)
        index = np.searchsorted(keys, held.name * span + (window - low), side="right")
        inside = index < len(keys)
        index = np.where(inside, index, 0)
        closed = inside & (name[index] == held.name)
        return closed, line[index]

    def _take(self, closed: npt.NDArray[np.bool_], trigger: Numbers) -> Rows:
        gone, trigger = self._held.pick(closed), trigger[closed]
        self._held = self._held.pick(~closed)
        window = gone.time // self._options.window_us
        order = np.lexsort((gone.line, gone.time, gone.name, window, trigger))
        return gone.pick(order)


def drop_repeats(rows: Rows, same_time: str, options: CleaningOptions, report: Report) -> Rows:
    """Closed rows without exact duplicates and, as the option says, without others at the same time."""
    if len(rows.line) < 2:
        return rows
    same = (rows.name[1:] == rows.name[:-1]) & (rows.time[1:] == rows.time[:-1])
    if not same.any():
        return rows
    crowd = np.flatnonzero(np.concatenate([same, [False]]) | np.concatenate([[False], same]))
    rows = _drop_duplicates(rows, crowd, options.repairs.duplicates, report)
    same = (rows.name[1:] == rows.name[:-1]) & (rows.time[1:] == rows.time[:-1])
    if same_time == "keep" or not same.any():
        return rows
    lose = np.concatenate([[False], same]) if same_time == "first" else np.concatenate([same, [False]])
    if same_time == "refuse":
        report.refuse(CleaningRule.SAME_TIME, rows.line[lose])
    report.dropped(CleaningRule.SAME_TIME, rows.line[lose])
    return rows.pick(~lose)


def _drop_duplicates(rows: Rows, crowd: Numbers, policy: str, report: Report) -> Rows:
    if policy == "keep":
        return rows
    some = rows.pick(crowd)
    order = np.lexsort((some.line, some.digest, some.mem, some.cpu, some.time, some.name))
    some = some.pick(order)
    equal = np.ones(len(order) - 1, np.bool_)
    for column in (some.name, some.time, some.cpu, some.mem, some.digest):
        equal &= column[1:] == column[:-1]
    lose = np.zeros(len(rows.line), np.bool_)
    lose[crowd[order[1:][equal]]] = True
    if policy == "refuse":
        report.refuse(CleaningRule.DUPLICATE, rows.line[lose])
    report.dropped(CleaningRule.DUPLICATE, rows.line[lose])
    return rows.pick(~lose)


def closed_rows(
    reader: RowReader, batches: Iterator[Rows], clock: Clock, windows: OpenWindows
) -> Iterator[Rows]:
    """Rows in the order in which their windows close, batch by batch, also where a batch closes none."""
    for batch in batches:
        closed = NO_ROWS
        if len(batch.line):
            timed = clock.check(batch, len(reader.names))
            if len(timed.rows.line):
                closed = windows.close(timed, len(reader.names))
        yield closed
    held = clock.release()
    if len(held.rows.line):
        yield windows.close(held, len(reader.names))
    yield windows.close_all(len(reader.names))
