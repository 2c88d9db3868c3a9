"""Where the episodes of an environment come from: the generator, a recording, requests, or rows to place.

Rows are read as they are needed, whatever they come from: a list, a generator, a table. What has been read is
kept, so that a finite source can begin anew although its iterator cannot; it says how often it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from proreus.model.errors import UsageError
from proreus.worlds.functions.datasets.readers import RequestRecording, is_rows, read_recording, read_rows
from proreus.worlds.functions.datasets.rows import RowTerms, demand_of_rows
from proreus.worlds.functions.model import Demand
from proreus.worlds.functions.scenarios import FunctionsScenario

MOST_KEPT = 1_000_000
"""Rows; a longer source cannot begin anew."""
_SEEDS = 1_000_000
_TRIES = 100


class EpisodeSource(Protocol):
    """Episode after episode."""

    @property
    def restarts(self) -> int:
        """How often the source was at its end and began anew."""
        ...

    def rewind(self) -> None:
        """Back to the beginning: a seed was given."""
        ...

    def episode(self, draw: np.random.Generator) -> Demand:
        """The next one."""
        ...


class GeneratedEpisodes:
    """As many episodes as anyone wants."""

    restarts = 0

    def __init__(self, scenario: FunctionsScenario) -> None:
        self._scenario = scenario

    def rewind(self) -> None:
        """There is no order."""

    def episode(self, draw: np.random.Generator) -> Demand:
        """One that the draw determines."""
        return self._scenario.demand(int(draw.integers(_SEEDS)))


class Repeated:
    """The same requests in every episode."""

    def __init__(self, demand: Demand) -> None:
        self._demand, self.restarts, self._played = demand, 0, False

    def rewind(self) -> None:
        """To the first episode."""
        self.restarts, self._played = 0, False

    def episode(self, draw: np.random.Generator) -> Demand:
        """All of them."""
        self.restarts += self._played
        self._played = True
        return self._demand


class RecordedWindows:
    """Windows of a recording, drawn."""

    restarts = 0

    def __init__(self, recording: RequestRecording, seconds: float) -> None:
        self._recording, self._seconds = recording, min(seconds, recording.length)

    def rewind(self) -> None:
        """There is no order."""

    def episode(self, draw: np.random.Generator) -> Demand:
        """A window in which something was recorded."""
        last = self._recording.length - self._seconds
        for _ in range(_TRIES):
            begin = float(draw.random()) * last
            try:
                return self._recording.window(begin, begin + self._seconds, draw)
            except UsageError:
                continue
        raise UsageError(f"nothing was recorded in {_TRIES} windows of {self._seconds:g} s")


class InjectedRows:
    """Rows to place, so many an episode; an episode is shorter where the source ends."""

    def __init__(self, source: Iterable[Mapping[str, Any]], terms: RowTerms, each: int) -> None:
        self._left: Iterator[Mapping[str, Any]] | None = iter(source)
        self._kept: list[Mapping[str, Any]] = []
        self._terms, self._each, self._at, self.restarts = terms, each, 0, 0

    def rewind(self) -> None:
        """To the first row."""
        self._at, self.restarts = 0, 0

    def episode(self, draw: np.random.Generator) -> Demand:
        """The next rows; from the first one on where there are none left."""
        rows = self._next_rows()
        if not rows:
            if not self._kept:
                raise UsageError("the dataset has no rows")
            self._at = 0
            self.restarts += 1
            rows = self._next_rows()
        return demand_of_rows(rows, self._terms, draw)

    def _next_rows(self) -> list[Mapping[str, Any]]:
        while self._left is not None and len(self._kept) < self._at + self._each:
            row = next(self._left, None)
            if row is None:
                self._left = None
                break
            if not isinstance(row, Mapping):
                raise UsageError(f"a row of the dataset is a {type(row).__name__}, not a mapping")
            if len(self._kept) >= MOST_KEPT:
                raise UsageError(f"the dataset has more than {MOST_KEPT:,} rows")
            self._kept.append(row)
        rows = self._kept[self._at : self._at + self._each]
        self._at += len(rows)
        return rows


def dataset_of(source: Any, scenario: FunctionsScenario, terms: RowTerms, each: int) -> EpisodeSource:
    """Of whatever `set_dataset` was given."""
    match source:
        case None:
            return GeneratedEpisodes(scenario)
        case FunctionsScenario():
            return GeneratedEpisodes(source)
        case Demand():
            return Repeated(source)
        case RequestRecording():
            return RecordedWindows(source, scenario.seconds)
        case str() | Path():
            path = Path(source)
            if is_rows(path):
                return InjectedRows(read_rows(path), terms, each)
            return RecordedWindows(read_recording(path), scenario.seconds)
        case Mapping():
            raise UsageError("a dataset is rows one after the other, not a single mapping")
        case Iterable():
            return InjectedRows(source, terms, each)
    raise UsageError(
        f"a dataset is a file, a recording, a demand or rows one after the other, not {type(source).__name__}"
    )
