"""The scenarios of the world `functions` by name.

`calm`, `busy` and `rush`: generated requests that use a tenth, a quarter and half of all CPU. `busy@120`: for
so many seconds. `azure2021/recorded` and `azure2019/recorded`: requests as they were recorded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.contract.variation import Variation, counts_without
from proreus.data.catalogue import data_dir, files_of
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.worlds.functions.datasets.catalogue import DATASETS
from proreus.worlds.functions.datasets.generator import draw_demand
from proreus.worlds.functions.datasets.readers import RequestRecording, read_recording
from proreus.worlds.functions.model import Demand, FunctionsTerms, NodeKind, nodes_in_words
from proreus.worlds.functions.simulation.run import FunctionsRun
from proreus.worlds.functions.state.columns import FunctionsWork
from proreus.worlds.functions.state.compile import compile_demands

_NAME = r"(?:(?P<dataset>[\w-]+)/)?(?P<scenario>[\w-]+)(?:@(?P<seconds>\d+))?"
_SEEDS_APART = 1_000_000
_MOST_SECONDS, _MOST_LOAD, _MOST_FUNCTIONS = 86_400.0, 4.0, 2_000
_BOUNDS: dict[Part, tuple[float, float]] = {"train": (0.0, 0.5), "valid": (0.5, 0.75), "test": (0.75, 1.0)}
"""The parts of a recording, by time."""
_TRIES = 100
RECORDED = "recorded"
_LEAST_WINDOWS = 5
"""Of a recording's last part, beside each other, where policies are to be told apart by it."""


@dataclass(frozen=True, eq=False)
class FunctionsLoad:
    """The work of one seed."""

    demand: Demand
    work: FunctionsWork


@dataclass(frozen=True)
class FunctionsScenario:
    """Requests and what serves them; small, and loaded where it is needed."""

    name: str
    terms: FunctionsTerms = field(default_factory=FunctionsTerms)
    load_share: float = 0.25
    """The share of all nodes' CPU that requests use, where they are generated."""
    seconds: float = 600.0
    """Requests come for so long."""
    functions: int = 20
    """That are generated."""
    files: Path | None = None
    """A recording; None: requests are generated."""
    part: Part = "test"

    world: ClassVar[str] = "functions"

    def __post_init__(self) -> None:
        if not 0.0 < self.load_share <= _MOST_LOAD:
            raise UsageError(f"load: {self.load_share} is not above 0 and at most {_MOST_LOAD:g}")
        if not 1.0 <= self.seconds <= _MOST_SECONDS:
            raise UsageError(f"seconds: {self.seconds} is not between 1 and {_MOST_SECONDS:,.0f}")
        if not 1 <= self.functions <= _MOST_FUNCTIONS:
            raise UsageError(f"functions: {self.functions} is not between 1 and {_MOST_FUNCTIONS:,}")

    @property
    def headings(self) -> Headings:
        """Response time and cost together decide."""
        telling = ("objective", "rfrt", "rfrt_p99", "cost", "cold", "dropped", "slo", "decisions_per_s")
        come = "as recorded" if self.files is not None else f"{100 * self.load_share:g} % CPU load"
        remarks = (
            nodes_in_words(self.terms.nodes),
            f"requests for {self.seconds:g} s, {come}",
            f"beta {self.terms.beta:g}",
            f"RFRT counts from {self.terms.rfrt_low:g} to {self.terms.rfrt_high:g}",
        )
        return Headings(("objective",), telling, remarks)

    def load(self, seed: int) -> FunctionsLoad:
        """The requests of that seed."""
        demand = self.demand(seed)
        return FunctionsLoad(demand, compile_demands([demand], self.terms))

    def demand(self, seed: int) -> Demand:
        """The requests of that seed, before they are columns."""
        draw = np.random.default_rng(seed_of(self.part, seed, _SEEDS_APART))
        if self.files is None:
            return draw_demand(draw, self.functions, self.seconds, self.load_share, self.terms)
        return self._window(_recording(self.files), draw)

    def _window(self, recording: RequestRecording, draw: np.random.Generator) -> Demand:
        """Some of the part's time in which anything was recorded."""
        low, high = (share * recording.length for share in _BOUNDS[self.part])
        length = min(self.seconds, high - low)
        for _ in range(_TRIES):
            begin = low + draw.random() * (high - low - length)
            try:
                return recording.window(begin, begin + length, draw)
            except UsageError:
                continue
        raise UsageError(f"{self.name}: nothing was recorded in the part {self.part!r}")

    def start(self, work: FunctionsLoad, seed: int) -> FunctionsRun:
        """A run over the requests."""
        return FunctionsRun(work.demand, work.work)

    def varied(self, variation: Variation) -> FunctionsScenario:
        """With more requests, or without some nodes."""
        kinds = self.terms.nodes
        left = counts_without([kind.count for kind in kinds], variation.without)
        nodes = tuple(replace(kind, count=count) for kind, count in zip(kinds, left, strict=True) if count)
        # The load is a share of the nodes' CPU: with fewer of them as much is to come as before.
        share = self.load_share * variation.load * _cpu_of(kinds) / _cpu_of(nodes)
        return replace(self, terms=replace(self.terms, nodes=nodes), load_share=share)

    def of_part(self, part: Part) -> FunctionsScenario:
        """Other seeds, other hours of a recording."""
        return replace(self, part=part)

    def caution(self, seeds: Sequence[int]) -> str:
        """Windows of a recording overlap."""
        if self.files is None:
            return ""
        bounds = _BOUNDS[self.part]
        low, high = (share * _recording(self.files).length for share in bounds)
        said = (
            f"{self.name}: the part {self.part!r} is played, {100 * bounds[0]:g} to {100 * bounds[1]:g} % "
            "of the recording's time"
        )
        apart = max(int((high - low) // self.seconds), 1)
        if len(seeds) <= apart:
            return said
        return f"{said}; seeds overlap, it has only {apart} windows of {self.seconds:g} s"

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """The strongest rules."""
        return "objective", ("warm_cost", "bpbf", "ensure", "cheapest", "least_utilised")

    def to_json(self) -> dict[str, Any]:
        """As a run's settings keep it."""
        found = asdict(self)
        return {**found, "files": None if self.files is None else str(self.files), "options": None}


def check_parts(scenario: FunctionsScenario) -> None:
    """Refuse a recording that is too short to learn from one part and judge by several runs of another."""
    if scenario.files is None:
        return
    low, high = _BOUNDS["test"]
    length = _recording(scenario.files).length
    needed = _LEAST_WINDOWS * scenario.seconds / (high - low)
    if length < needed:
        raise InputError(
            f"{length:,.0f} s are too few to learn from one part and judge by another, with runs of "
            f"{scenario.seconds:g} s: {needed:,.0f}, or shorter runs (@30 after the scenario)",
            file=scenario.files,
        )


@lru_cache(maxsize=8)
def _recording(path: Path) -> RequestRecording:
    return read_recording(path)


SCENARIOS: dict[str, FunctionsScenario] = {
    "busy": FunctionsScenario("busy"),
    "calm": FunctionsScenario("calm", load_share=0.1),
    "rush": FunctionsScenario("rush", load_share=0.5),
}


def parse_scenario(name: str, data: Path | None) -> FunctionsScenario:
    """The scenario of that name; `data`: the folder of datasets."""
    known = [*SCENARIOS, *(f"{dataset}/{RECORDED}" for dataset in DATASETS)]
    match = re.fullmatch(_NAME, name)
    if match is None or match["scenario"] not in ([RECORDED] if match["dataset"] else SCENARIOS):
        raise unknown_name("scenario", name, known)
    if match["dataset"] is None:
        scenario = replace(SCENARIOS[match["scenario"]], name=name)
    else:
        if match["dataset"] not in DATASETS:
            raise unknown_name("dataset", match["dataset"], DATASETS)
        first, *others = files_of(DATASETS, match["dataset"], data)
        scenario = FunctionsScenario(name, files=first.parent if others else first)
    return scenario if match["seconds"] is None else replace(scenario, seconds=float(match["seconds"]))


def scenario_from_json(entry: Mapping[str, Any], data: Path | None = None) -> FunctionsScenario:
    """Back from `to_json`; `data`: where the datasets lie now. A ValueError where the entry is none."""
    try:
        name, terms = str(entry["name"]), dict(entry["terms"])
        if entry["options"] is not None:
            raise ValueError("options: there are none")
        terms["nodes"] = tuple(NodeKind(**kind) for kind in terms["nodes"])
        files = None if entry["files"] is None else Path(entry["files"])
        if "/" in name and data is not None:
            files = parse_scenario(name.partition(":")[0], data_dir(data)).files
        kept = {key: entry[key] for key in ("load_share", "seconds", "functions", "part")}
        return FunctionsScenario(name, FunctionsTerms(**terms), files=files, **kept)
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        raise ValueError(f"not a scenario: {error}") from error


def _cpu_of(kinds: Sequence[NodeKind]) -> int:
    return sum(kind.count * kind.cpu for kind in kinds)
