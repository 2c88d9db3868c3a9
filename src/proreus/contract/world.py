"""A world as one value: what every verb needs to know of it.

`simulate`, `compare`, `train`, `bench`, `data list`, environments and the report are written once against
what stands here; a world that fills in this value has them all. Its own folder says how it does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from proreus.contract.gantt import Gantt
from proreus.contract.heatmap import HeatMap
from proreus.contract.replay import Replay
from proreus.contract.scenario import Scenario
from proreus.contract.simulation import Outcome
from proreus.contract.timeline import Strip
from proreus.data.catalogue import Dataset
from proreus.kernels.arrays import F64
from proreus.model.measure import Measure
from proreus.policies.catalogue import Catalogue
from proreus.policies.protocol import Policy


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
    gantt: Gantt | None = None
    """Where work has a length."""


@dataclass(frozen=True)
class Played:
    """One run of one policy."""

    outcome: Outcome
    picture: Picture | None = None
    """Where one was asked for."""
    remark: str = ""
    """What the policy says of what it did."""

    @property
    def measures(self) -> dict[str, float]:
        """By the names of the world's measures."""
        return {name: float(value) for name, value in self.outcome.measures.items()}


Hear = Callable[[int, int], None]
"""Hears how much of a run is done, and of how much."""


class Play(Protocol):
    """Plays a policy over work to the end."""

    def __call__(
        self,
        scenario: Any,
        work: Any,
        policy: Policy[Any, Any],
        seed: int,
        *,
        hear: Hear | None = None,
        picture: bool = False,
    ) -> Played:
        """A run over `work`, which stays as it is; the policy starts without memory, drawing from `seed`."""
        ...


@dataclass(frozen=True)
class TradeOff:
    """Two measures of which one costs the other: the report draws every policy between them."""

    across: str
    """The measure along the bottom: what is spent."""
    up: str
    """The measure upwards: what is had for it."""


@dataclass(frozen=True)
class Words:
    """How a report speaks of a world."""

    noun: str
    """What is placed: "pods"."""
    place: str
    """Where it is placed, one row of the heat map: "node"."""
    subject: str = "decision"
    """What `Simulation.subject` names, for --explain: a "pod"."""
    does: Mapping[str, str] = field(default_factory=dict)
    """Measure that may decide -> what a policy with so much of it does: "allocates {} of the GPUs"."""
    unplaced: Mapping[str, str] = field(default_factory=dict)
    """Measure -> the one that counts the work which it leaves out."""
    load_title: str = ""
    """What the axis is called where it is load and not time."""
    caution: str = ""
    """What a reader of the report should know about the figures."""


PLAYING: Mapping[str, bool] = {"trains": False}
"""Metadata of a flag that says which part of the work is played: training knows its parts itself."""


GIVEN: Mapping[str, bool] = {"tunes": False}
"""Metadata of a flag that names one's own work: to `tune`, --from does."""


class ScenarioFlags(Protocol):
    """The flags that say what to play: a frozen dataclass with a default for every field."""

    @property
    def data(self) -> Path | None:
        """The folder of datasets."""
        ...

    def chosen(self, name: str | None = None) -> Any:
        """The scenario that the flags describe; `name` in place of --scenario."""
        ...


def _as_it_is(work: Any) -> Any:
    return work


@dataclass(frozen=True)
class World:
    """What a world promises."""

    name: str
    """Its folder, its word on the command line, the `world` of its checkpoints."""
    what: str
    """One line for `proreus --help` and lists."""
    flags: type[ScenarioFlags]
    scenario: Callable[[Mapping[str, Any], Path | None], Scenario]
    """Back from `Scenario.to_json`; a ValueError where it is none. The path: where the data lies now."""
    presets: tuple[str, ...]
    """Scenarios that need no data, by name; the first one is small."""
    policies: Callable[[Scenario | None], Catalogue]
    """Those that play such a scenario; None: of the main kind, for --help."""
    play: Play
    """`contract.play.step_by_step`, or a faster way to the same decisions."""
    measures: Mapping[str, Measure]
    """In the order in which they are shown."""
    quantities: tuple[Quantity, ...]
    """The first four that are not zero throughout are drawn."""
    words: Words
    warm_up: Callable[[], None]
    """Compiles what playing needs, once, before worker processes start."""
    trade_off: TradeOff | None = None
    timeline: tuple[Strip, ...] = ()
    """Strips of which each run has the series that it has."""
    datasets: Mapping[str, Dataset] = field(default_factory=dict)
    shown: Callable[[Any], Any] = _as_it_is
    """The part of the work that --watch and pictures show."""
    learners: Mapping[str, str] = field(default_factory=dict)
    """Algorithm -> "module:LEARNER"; imported when asked for. The first one is the default."""
    trains_on: tuple[str, ...] = ()
    """Scenarios that training uses where none are named."""
    combine: str = ""
    """"module:function" that makes one checkpoint of several runs, for `proreus combine`."""
    specialist: str = ""
    """"module:SPECIALIST" that `tune` trains (`learning.specialist.Specialist`); "": none. Its flags then
    have `drawing(given)`: work like that which was given, another for every seed."""
    tunes_from: str = ""
    """What `tune --from` takes, for --help; sentences."""
    not_tuned: str = ""
    """Why nothing is trained by `tune`, where there is no specialist."""
    bench: str = ""
    """"module:function" that yields its speed claims."""
    examples: Mapping[str, str] = field(default_factory=dict)
    """Verb -> an example for --help."""

    @property
    def lessons(self) -> tuple[str, ...]:
        """What training trains on where no scenario is named."""
        return self.trains_on or self.presets[:1]
