"""Sums the rows of closed windows by pod: round robin over the pods of a service, gaps filled.

State that lasts from window to window: whose turn it is, the last window of each name and its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from proreus.data.cleaning.options import MICROSECONDS, CleaningOptions, Kind
from proreus.data.cleaning.report import CleaningRule, Report
from proreus.data.cleaning.rows import Rows
from proreus.model.errors import InputError

_NO_WINDOW = np.iinfo(np.int64).min
_MOST_AT_ONCE = 50_000
Numbers = npt.NDArray[np.int64]
Amounts = npt.NDArray[np.float64]


class WindowColumns(NamedTuple):
    """Windows per pod as columns, shape (windows,) each."""

    start: Numbers
    """Microseconds."""
    pod: Numbers
    """name * pods per name + place."""
    cpu: Amounts
    mem: Amounts
    requests: Numbers


class Summary:
    """Turns the rows of closed windows into windows per pod."""

    def __init__(self, options: CleaningOptions, kind: Kind, pods: int, report: Report) -> None:
        self._options, self._kind, self._pods, self._report = options, kind, pods, report
        self._turn: Numbers = np.zeros(0, np.int64)
        self._busy: Numbers = np.zeros(0, np.int64)
        """Pods of each name that got a row."""
        self._last: Numbers = np.zeros(0, np.int64)
        self._cpu: Amounts = np.zeros(0)
        self._mem: Amounts = np.zeros(0)

    def pods_of(self, rows: Rows, names: int) -> Numbers:
        """The pod of each row, handed out in turn within each name."""
        self._grow(names)
        if self._pods == 1:
            self._busy[rows.name] = 1
            return rows.name
        order = np.argsort(rows.name, kind="stable")
        name = rows.name[order]
        starts = np.flatnonzero(np.concatenate([[True], name[1:] != name[:-1]])) if len(name) else order
        counts = np.diff(np.concatenate([starts, [len(name)]]))
        turn = np.arange(len(name)) - np.repeat(starts, counts) + self._turn[name]
        # In turn: as many pods have a row as there were rows, until all have one.
        self._busy[name[starts]] = np.minimum(self._busy[name[starts]] + counts, self._pods)
        self._turn[name[starts]] = (self._turn[name[starts]] + counts) % self._pods
        pod = np.empty_like(order)
        pod[order] = name * self._pods + turn % self._pods
        return pod

    @property
    def pods(self) -> int:
        """How many pods got a row so far."""
        return int(self._busy.sum())

    def windows(self, rows: Rows, pod: Numbers) -> Iterator[WindowColumns]:
        """The windows of closed rows, in order, with those missing before them."""
        if not len(rows.line):
            return
        window = rows.time // self._options.window_us
        new = np.concatenate([[True], (window[1:] != window[:-1]) | (rows.name[1:] != rows.name[:-1])])
        first = np.flatnonzero(new)
        group = np.cumsum(new) - 1
        name, number = rows.name[first], window[first]
        cell = group * self._pods + pod % self._pods
        size = len(first) * self._pods
        # bincount adds one by one in the order of the rows, so a sum is the same whatever else it counts.
        requests: Numbers = np.bincount(cell, minlength=size).astype(np.int64)
        cpu: Amounts = np.bincount(cell, weights=rows.cpu, minlength=size).astype(np.float64)
        mem: Amounts = np.bincount(cell, weights=rows.mem, minlength=size).astype(np.float64)
        if self._kind == "monitor":
            cpu, mem = cpu / requests, mem / requests
        missing, last_cpu, last_mem = self._missing(name, number, cpu, mem)
        self._judge_gaps(missing, rows.line[first])
        if self._options.repairs.gaps == "skip":
            missing = np.zeros_like(missing)
        shape = (len(first), self._pods)
        own = (requests.reshape(shape), cpu.reshape(shape), mem.reshape(shape))
        total = np.cumsum((missing + 1) * self._pods)
        begin = 0
        while begin < len(first):
            done = int(total[begin - 1]) if begin else 0
            end = max(begin + 1, int(np.searchsorted(total, done + _MOST_AT_ONCE, side="right")))
            part = slice(begin, end)
            yield self._expand(
                name[part],
                number[part],
                missing[part],
                (own[0][part], own[1][part], own[2][part]),
                (last_cpu[part], last_mem[part]),
            )
            begin = end

    def _grow(self, names: int) -> None:
        grown = names - len(self._turn)
        self._turn = np.concatenate([self._turn, np.zeros(grown, np.int64)])
        self._busy = np.concatenate([self._busy, np.zeros(grown, np.int64)])
        self._last = np.concatenate([self._last, np.full(grown, _NO_WINDOW)])
        self._cpu = np.concatenate([self._cpu, np.zeros(grown)])
        self._mem = np.concatenate([self._mem, np.zeros(grown)])

    def _missing(
        self, name: Numbers, number: Numbers, cpu: Amounts, mem: Amounts
    ) -> tuple[Numbers, Amounts, Amounts]:
        """(windows missing before each, cpu and mem that fill them); the last of each name is remembered."""
        order = np.argsort(name, kind="stable")
        ordered = name[order]
        first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        before = np.where(first, self._last[ordered], np.roll(number[order], 1))
        gap = np.where(before == _NO_WINDOW, 0, number[order] - before - 1)
        missing = np.empty_like(gap)
        missing[order] = gap
        last_cpu, last_mem = np.zeros(len(name)), np.zeros(len(name))
        if self._kind == "monitor":  # one pod a name: the window before it is its last value
            last_cpu[order] = np.where(first, self._cpu[ordered], np.roll(cpu[order], 1))
            last_mem[order] = np.where(first, self._mem[ordered], np.roll(mem[order], 1))
            final = order[np.flatnonzero(np.concatenate([first[1:], [True]]))]
            self._cpu[name[final]], self._mem[name[final]] = cpu[final], mem[final]
        np.maximum.at(self._last, name, number)
        return missing, last_cpu, last_mem

    def _judge_gaps(self, missing: Numbers, line: Numbers) -> None:
        repairs = self._options.repairs
        gap = missing > 0
        if not gap.any() or repairs.gaps == "skip":
            return
        if repairs.gaps == "refuse":
            self._report.refuse(CleaningRule.GAP, line[gap], " before this line")
            return
        too_long = missing * self._options.window_us > repairs.longest_gap * MICROSECONDS
        if too_long.any():
            at = int(np.argmin(np.where(too_long, line, np.iinfo(np.int64).max)))
            seconds = missing[at] * self._options.window_us / MICROSECONDS
            raise InputError(
                f"{seconds:g} seconds without a row before this line, --longest-gap is"
                f" {repairs.longest_gap:g} (see also --gaps skip)",
                file=self._report.file,
                line=int(line[at]),
                field=CleaningRule.GAP.title,
            )
        # A window without requests is no fault of a log; a monitor that says nothing is one.
        note = self._report.repaired if self._kind == "monitor" else self._report.read
        note(CleaningRule.GAP, line[gap])
        self._report.windows_filled += int(missing.sum()) * self._pods

    def _expand(
        self,
        name: Numbers,
        number: Numbers,
        missing: Numbers,
        own: tuple[npt.NDArray[np.int64], Amounts, Amounts],
        last: tuple[Amounts, Amounts],
    ) -> WindowColumns:
        """The windows with the missing ones before each; `own` is (windows, pods) each."""
        repeat = missing + 1
        source = np.repeat(np.arange(len(name)), repeat)
        ahead = np.cumsum(repeat)[source] - np.arange(len(source)) - 1
        filler = (ahead > 0)[:, None]
        requests = np.where(filler, 0, own[0][source])
        cpu = np.where(filler, last[0][source][:, None], own[1][source])
        mem = np.where(filler, last[1][source][:, None], own[2][source])
        start = (number[source] - ahead) * self._options.window_us
        pod = name[source][:, None] * self._pods + np.arange(self._pods)
        return WindowColumns(
            np.repeat(start, self._pods), pod.ravel(), cpu.ravel(), mem.ravel(), requests.ravel()
        )
