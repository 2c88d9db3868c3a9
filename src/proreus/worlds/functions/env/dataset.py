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
    """Rows to place, one after the other: an iterator that can begin anew, whatever it was made of.

    It ends at the last row; `iter` leads back to the first one, and is counted.
    """

    def __init__(self, source: Iterable[Mapping[str, Any]]) -> None:
        self._left: Iterator[Mapping[str, Any]] | None = iter(source)
        self._kept: list[Mapping[str, Any]] = []
        self._at, self.restarts = 0, 0

    def __iter__(self) -> InjectedRows:
        if self._at:
            self._at = 0
            self.restarts += 1
        return self

    def __next__(self) -> Mapping[str, Any]:
        if self.at_end:
            raise StopIteration
        self._at += 1
        return self._kept[self._at - 1]

    @property
    def at_end(self) -> bool:
        """Whether there is no further row."""
        if self._at < len(self._kept):
            return False
        row = None if self._left is None else next(self._left, None)
        if row is None:
            self._left = None
            return True
        if len(self._kept) >= MOST_KEPT:
            raise UsageError(f"the dataset has more than {MOST_KEPT:,} rows")
        self._kept.append(row)
        return False

    def rewind(self) -> None:
        """To the first row: a seed was given."""
        self._at, self.restarts = 0, 0


def dataset_of(source: Any, scenario: FunctionsScenario) -> EpisodeSource | InjectedRows:
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
                return InjectedRows(read_rows(path))
            return RecordedWindows(read_recording(path), scenario.seconds)
        case Mapping():
            raise UsageError("a dataset is rows one after the other, not a single mapping")
        case Iterable():
            return InjectedRows(source)
    raise UsageError(
        f"a dataset is a file, a recording, a demand or rows one after the other, not {type(source).__name__}"
    )
