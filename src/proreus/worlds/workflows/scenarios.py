"""The scenarios of the world `workflows` by name.

`static`: one workflow a seed on ten machines, as short as possible. `calm`, `busy`, `rush`: workflows arrive,
machines are rented, deadlines are paid for. Without a dataset workflows are generated; `traces/busy` has
recorded ones, `busy@60` sixty of them a seed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from proreus.contract.scenario import Headings, Part, seed_of
from proreus.contract.variation import Variation, counts_without
from proreus.data.catalogue import data_dir, files_of
from proreus.model.errors import InputError, UsageError, unknown_name
from proreus.worlds.workflows.datasets.catalogue import DATASETS
from proreus.worlds.workflows.datasets.files import LEAST_FOR_PARTS, files_in, of_part, read_workflow
from proreus.worlds.workflows.datasets.generator import draw_workflow
from proreus.worlds.workflows.model import CLUSTER, Arrivals, MachineKind, Workflow, WorkflowsTerms
from proreus.worlds.workflows.simulation.run import WorkflowsRun
from proreus.worlds.workflows.state.columns import WorkflowsWork
from proreus.worlds.workflows.state.compile import compile_arrivals, critical_path

_NAME = r"(?:(?P<dataset>[\w-]+)/)?(?P<scenario>[\w-]+)(?:@(?P<count>\d+))?"
_SEEDS_APART = 1_000_000
_MOST_WORKFLOWS = 10_000
_MOST_LOAD = 100.0
_TRIES = 1_000
_WIDEST = 30
"""Of generated workflows."""


@dataclass(frozen=True, eq=False)
class WorkflowsLoad:
    """The work of one seed."""

    arrivals: Arrivals
    work: WorkflowsWork


@dataclass(frozen=True)
class WorkflowsScenario:
    """Workflows and what they run on; small, and loaded where it is needed."""

    name: str
    terms: WorkflowsTerms = field(default_factory=WorkflowsTerms)
    load_share: float = 0.0
    """The share of all machines' speed that the work which arrives would take; 0: one workflow a seed, to be
    planned at once."""
    count: int = 30
    """Workflows of a run, where they arrive."""
    files: Path | None = None
    """A workflow, or a folder of them; None: generated."""
    ahead: bool = False
    """Whether workflows that arrive are planned at once, too, before any of their tasks has run."""
    largest: int = 200
    """Tasks of a workflow among many; larger ones would be most of a run by themselves."""
    part: Part = "test"

    world: ClassVar[str] = "workflows"

    def __post_init__(self) -> None:
        if self.files is not None:  # in Python people write a str
            object.__setattr__(self, "files", Path(self.files))
        if not 0 <= self.load_share <= _MOST_LOAD:
            raise UsageError(f"load: {self.load_share} is not between 0 and {_MOST_LOAD:g}")
        if self.largest < 1:
            raise UsageError(f"largest: {self.largest} is not at least 1")
        if not 1 <= self.count <= _MOST_WORKFLOWS:
            raise UsageError(f"count: {self.count} is not between 1 and {_MOST_WORKFLOWS:,}")

    @property
    def is_static(self) -> bool:
        """One workflow, as short as possible."""
        return self.load_share == 0.0

    @property
    def headings(self) -> Headings:
        """The makespan, or what is paid."""
        machines = f"{self.terms.nodes} machines"
        if self.is_static:
            return Headings(
                ("slr",), ("slr", "makespan", "decisions_per_s"), (machines, "one workflow a seed")
            )
        telling = ("cost", "rent", "penalty", "late", "response", "worked", "decisions_per_s")
        remarks = (
            machines,
            f"{self.count} workflows a seed, {100 * self.load_share:g} % load",
            f"rented for {self.terms.billing:g} s at a time",
            f"deadline after {self.terms.deadline:g} critical paths",
        )
        return Headings(("cost",), telling, remarks)

    def load(self, seed: int) -> WorkflowsLoad:
        """The workflows of that seed."""
        drawn = seed_of(self.part, seed, _SEEDS_APART)
        draw = np.random.default_rng(drawn)
        if self.is_static:
            arrivals = Arrivals(
                self.name,
                (self._single(seed, draw),),
                np.zeros(1),
                np.full(1, np.inf),
                self.terms,
                ahead=True,
            )
        else:
            arrivals = self._many(draw)
        return WorkflowsLoad(arrivals, compile_arrivals(arrivals))

    def _single(self, seed: int, draw: np.random.Generator) -> Workflow:
        if self.files is None:
            return draw_workflow(draw, 3 * _WIDEST)
        files = of_part(files_in(self.files), self.part)
        return read_workflow(files[seed % len(files)])

    def _many(self, draw: np.random.Generator) -> Arrivals:
        known = self._recorded()
        workflows = tuple(
            known[int(draw.integers(len(known)))] if known else self._small(draw) for _ in range(self.count)
        )
        usual = float(np.mean([workflow.runtime.sum() for workflow in workflows]))
        gap = usual / (self.load_share * float(self.terms.speeds.sum()))
        arrival = np.cumsum(draw.exponential(gap, self.count))
        paths = np.array([critical_path(workflow, self.terms) for workflow in workflows])
        # No deadline is so near that nothing could be done about it.
        spans = np.maximum(self.terms.deadline * paths, 1.0)
        return Arrivals(self.name, workflows, arrival, arrival + spans, self.terms, self.ahead)

    def _small(self, draw: np.random.Generator) -> Workflow:
        for _ in range(_TRIES):
            if len(workflow := draw_workflow(draw, _WIDEST)) <= self.largest:
                return workflow
        raise UsageError(f"largest: of {_TRIES} workflows none has at most {self.largest} tasks")

    def _recorded(self) -> list[Workflow]:
        if self.files is None:
            return []
        workflows = [read_workflow(file) for file in of_part(files_in(self.files), self.part)]
        known = [workflow for workflow in workflows if len(workflow) <= self.largest]
        if not known:
            raise UsageError(f"{self.files}: no workflow of this part has at most {self.largest} tasks")
        return known

    def start(self, work: WorkflowsLoad, seed: int) -> WorkflowsRun:
        """A run over the workflows."""
        return WorkflowsRun(work.arrivals, work.work)

    def varied(self, variation: Variation) -> WorkflowsScenario:
        """With workflows that come faster after each other, or without some machines."""
        if self.is_static and variation.load > 1:
            raise UsageError(f"{self.name}: one workflow is planned, there is no load to raise")
        kinds = self.terms.machines
        left = counts_without([kind.count for kind in kinds], variation.without)
        machines = tuple(replace(kind, count=count) for kind, count in zip(kinds, left, strict=True) if count)
        terms = replace(self.terms, machines=machines)
        # The load is a share of the machines' speed: with fewer of them as much is to come as before.
        before, after = float(self.terms.speeds.sum()), float(terms.speeds.sum())
        return replace(self, terms=terms, load_share=self.load_share * variation.load * before / after)

    def of_part(self, part: Part) -> WorkflowsScenario:
        """Other files, other seeds."""
        return replace(self, part=part)

    def caution(self, seeds: Sequence[int]) -> str:
        """Of files there are only so many."""
        if not self.is_static or self.files is None:
            return ""
        files = len(of_part(files_in(self.files), self.part))
        return "" if len(seeds) <= files else f"{self.name}: seeds repeat, there are only {files} workflows"

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """HEFT and PEFT plan; where there is rent, those rules that look at it."""
        if self.is_static:
            return "slr", ("heft", "peft")
        return "cost", ("greedy", "deadline", "cheapest_fit", "best_fit")

    def to_json(self) -> dict[str, Any]:
        files = None if self.files is None else str(self.files.resolve())
        return {**asdict(self), "files": files, "options": None}


SCENARIOS: dict[str, WorkflowsScenario] = {
    "calm": WorkflowsScenario("calm", load_share=0.1),
    "busy": WorkflowsScenario("busy", load_share=0.25),
    "rush": WorkflowsScenario("rush", load_share=0.5),
    "static": WorkflowsScenario("static", terms=WorkflowsTerms(machines=CLUSTER)),
}


def check_parts(scenario: WorkflowsScenario) -> None:
    """Refuse files that are too few to learn from some and judge by others."""
    if scenario.files is not None and (count := len(files_in(scenario.files))) < LEAST_FOR_PARTS:
        raise InputError(
            f"{count} workflows are too few to learn from some and judge by others: {LEAST_FOR_PARTS}",
            file=scenario.files,
        )


def parse_scenario(name: str, data: Path | None) -> WorkflowsScenario:
    """The scenario of that name; `data`: the folder of datasets."""
    match = re.fullmatch(_NAME, name)
    if match is None or match["scenario"] not in SCENARIOS:
        known = [*SCENARIOS, *(f"{dataset}/{preset}" for dataset in DATASETS for preset in SCENARIOS)]
        raise unknown_name("scenario", name, known)
    scenario = replace(SCENARIOS[match["scenario"]], name=name)
    if match["count"] is not None:
        scenario = replace(scenario, count=int(match["count"]))
    if match["dataset"] is None:
        return scenario
    if match["dataset"] not in DATASETS:
        raise unknown_name("dataset", match["dataset"], DATASETS)
    licence, _ = files_of(DATASETS, match["dataset"], data)
    return replace(scenario, files=licence.parent.parent)


def scenario_from_json(entry: Mapping[str, Any], data: Path | None = None) -> WorkflowsScenario:
    """Back from `to_json`; `data`: where the datasets lie now. A ValueError where the entry is none."""
    try:
        name, terms = str(entry["name"]), dict(entry["terms"])
        if entry["options"] is not None:
            raise ValueError("options: there are none")
        terms["machines"] = tuple(MachineKind(**kind) for kind in terms["machines"])
        files = None if entry["files"] is None else Path(entry["files"])
        if "/" in name and data is not None:
            files = parse_scenario(name.partition(":")[0], data_dir(data)).files
        kept = {key: entry[key] for key in ("load_share", "count", "ahead", "largest", "part")}
        return WorkflowsScenario(name, WorkflowsTerms(**terms), files=files, **kept)
    except (KeyError, TypeError, AttributeError, UsageError) as error:
        raise ValueError(f"not a scenario: {error}") from error
