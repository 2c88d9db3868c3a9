"""One run of a world: it advances until someone must decide, shows what it sees, takes the decision.

`contract.play` plays any simulation with any policy, step by step; a world may have a faster way beside it
that makes the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from proreus.contract.gantt import Gantt
from proreus.contract.replay import Levels, Move, Stage
from proreus.kernels.arrays import F64, Bool


class Observation(Protocol):
    """What a policy sees. Worlds add their own fields; what is legal is part of every one."""

    def action_mask(self) -> Bool:
        """bool[K]: which flat actions are legal now; `apply` takes their numbers too."""
        ...


Obs_co = TypeVar("Obs_co", bound=Observation, covariant=True)
Dec_contra = TypeVar("Dec_contra", contravariant=True)


@dataclass(frozen=True)
class Outcome:
    """What a run has come to."""

    measures: Mapping[str, float]
    """By the names of the world's measures; those that make no sense for the run are absent."""
    columns: tuple[str, ...] = ()
    """The head of `rows`."""
    rows: Sequence[Sequence[object]] = ()
    """For --log: one row for each thing that was decided about."""
    export: Callable[[], Mapping[str, object]] | None = None
    """For --export: where everything stands in the end, as JSON; made when it is asked for."""


class Simulation(Protocol[Obs_co, Dec_contra]):
    """Ask `next_decision` until it returns None, answering each with `apply`."""

    def next_decision(self) -> Obs_co | None:
        """Runs on until someone must decide; None: the run is over."""
        ...

    def apply(self, decision: Dec_contra | int, /) -> float | None:
        """Carry out a decision, or the flat action of that number. IllegalDecision changes nothing.

        Returns what it was worth, where the world says so step by step.
        """
        ...

    def subject(self) -> str:
        """What the decision at hand is about, by name: a pod, a machine, a window."""
        ...

    def outcome(self) -> Outcome:
        """What the run has come to so far."""
        ...

    def screen(self) -> list[str]:
        """The moment as lines of text, for --watch and render("ansi"); none: nothing new to see yet."""
        ...


@dataclass(frozen=True, eq=False)
class Look:
    """A run at one moment, for pictures."""

    time: float
    """Seconds, or whatever the world counts."""
    count: int
    """Placements, windows or migrations so far."""
    series: Mapping[str, float]
    """Key of a quantity -> its value now; empty before there is anything to measure: curves begin later."""
    use: F64
    """[boxes] share in use, for the heat map."""
    levels: Levels
    """[boxes, compartments, gauges] how full each is."""
    moves: tuple[Move, ...]
    """What moved since the look before, as far as it is known."""


@runtime_checkable
class Pictured(Protocol):
    """A simulation that can be drawn: compare's report then has curves, a heat map and a replay of it."""

    def stage(self) -> Stage:
        """What is drawn: boxes, their compartments, their gauges."""
        ...

    def look(self) -> Look | None:
        """The run now; None: nothing new to see yet."""
        ...

    def told(self, before: Look | None, now: Look) -> str:
        """A moment in words, given the one that is shown before it: "windows 3 to 7"."""
        ...

    def facts(self) -> tuple[str, ...]:
        """The size of the run: "20 nodes", "300 pods"."""
        ...


@runtime_checkable
class Timed(Protocol):
    """A simulation whose work has a length: compare's report then has a Gantt chart of it."""

    def gantt(self) -> Gantt:
        """What ran where, from when to when."""
        ...
