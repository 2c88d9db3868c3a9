"""What a comparison must know of a world: how to play one of its scenarios, and how to tell what came out.

Each world has a file of its own in this package with its `World` and its scenarios (`scenario` and `pods` for
the world of pods). Trials, statistics, tables, plots and the report know only what stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from proreus.contract.heat import HeatMap
from proreus.contract.replay import Replay
from proreus.kernels.arrays import F64
from proreus.model.measure import Measure


@dataclass(frozen=True)
class Quantity:
    """Something that is drawn over the run."""

    key: str
    """Names the series in a `Recording`, and the element of the report."""
    title: str
    unit: str
    file: str = ""
    """The name of the plot's file; "": in the report only."""


@dataclass(frozen=True)
class Recording:
    """How a run went, sampled at some hundred moments."""

    time: F64
    """[moments] in seconds."""
    series: dict[str, F64]
    """Key of a quantity -> its value at each moment."""
    load: F64 | None = None
    """[moments] what has arrived, in % of capacity: the axis in place of time, where nobody leaves."""


@dataclass(frozen=True)
class Picture:
    """What the plots of one run are drawn from."""

    recording: Recording
    heat: HeatMap
    facts: tuple[str, ...]
    """The size of the run: "20 nodes", "300 pods"."""
    replay: Replay | None = None
    """Where the world records one."""


@dataclass(frozen=True)
class Played:
    """One run of one policy."""

    measures: dict[str, float]
    """By the names of the world's measures; those that make no sense for the run are absent."""
    picture: Picture | None
    """Where one was asked for."""


@dataclass(frozen=True)
class World:
    """A world in the words of a report."""

    name: str
    measures: Mapping[str, Measure]
    """In the order in which they are shown."""
    quantities: tuple[Quantity, ...]
    """The first four that are not zero throughout are drawn."""
    load_kernels: Callable[[], None]
    """Compiles what playing needs, once, before worker processes start."""
    does: Mapping[str, str] = field(default_factory=dict)
    """Measure that may decide -> what a policy with so much of it does: "allocates {} of the GPUs"."""
    unplaced: Mapping[str, str] = field(default_factory=dict)
    """Measure -> the one that counts the work which it leaves out."""
    noun: str = "pods"
    """What is placed."""
    place: str = "node"
    """Where it is placed; one row of the heat map."""
    load_title: str = ""
    """What the axis is called where it is load and not time."""
    caution: str = ""
    """What a reader of the report should know about the figures."""


class AnyScenario(Protocol):
    """A scenario of any world. It travels to worker processes, so it is small and can be pickled."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    @property
    def world(self) -> World:
        """The world it plays in."""
        ...

    @property
    def deciding(self) -> tuple[str, ...]:
        """Measures that rank the policies: the first that a run has."""
        ...

    @property
    def telling(self) -> tuple[str, ...]:
        """Measures worth a column of a narrow table."""
        ...

    @property
    def remarks(self) -> tuple[str, ...]:
        """What holds for every run, in a few words each."""
        ...

    def check_policy(self, policy: str, options: Any) -> None:
        """A UsageError or an InputError where the policy cannot play; nothing is loaded."""
        ...

    def load(self, seed: int) -> Any:
        """The work of that seed, the same for every policy."""
        ...

    def play(self, work: Any, policy: tuple[str, Any], seed: int, *, with_picture: bool) -> Played:
        """A run over `work`, which it leaves as it was; policy = (name, options of the world's policies)."""
        ...
