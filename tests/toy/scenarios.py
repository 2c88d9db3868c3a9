"""Scenarios by name, and the flags that choose and change them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np

from proreus.contract.flags import metavar
from proreus.contract.scenario import Headings, Part, seed_of
from proreus.data.catalogue import Dataset, data_dir, files_of
from proreus.model.errors import unknown_name
from tests.toy.model import Jobs, generate
from tests.toy.simulation import ToyRun

DATASETS = {"jobs": Dataset("recorded jobs: arrival,work", "CC0", ("toy/jobs.csv",))}
SEEDS_APART = 1_000_000


@dataclass(frozen=True)
class ToyScenario:
    """Jobs, generated or recorded."""

    name: str
    jobs: int = 60
    busy: float = 0.7
    file: Path | None = None
    part: Part = "test"

    world: ClassVar[str] = "toy"
    headings: ClassVar[Headings] = Headings(
        ("time_in_system",), ("time_in_system", "jobs_done", "decisions_per_s")
    )

    def load(self, seed: int) -> Jobs:
        """Of that seed; recorded ones are always the same."""
        if self.file is not None:
            return Jobs(*np.loadtxt(self.file, delimiter=",", unpack=True, ndmin=2))
        return generate(self.jobs, self.busy, seed_of(self.part, seed, SEEDS_APART))

    def start(self, work: Jobs, seed: int) -> ToyRun:
        """A run over the jobs."""
        return ToyRun(work)

    def of_part(self, part: Part) -> ToyScenario:
        """Drawn with other seeds."""
        return replace(self, part=part)

    def caution(self, seeds: Sequence[int]) -> str:
        """A file is the same for every seed."""
        return "" if self.file is None else f"{self.name}: the same jobs for every seed"

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """The better of the rules that look."""
        return "time_in_system", ("shortest", "fast")

    def to_json(self) -> dict[str, Any]:
        """All fields."""
        return {**asdict(self), "file": None if self.file is None else str(self.file.resolve())}


PRESETS = {"calm": ToyScenario("calm"), "busy": ToyScenario("busy", busy=0.95)}


def parse(name: str, data: Path | None) -> ToyScenario:
    """The scenario of that name."""
    if name in DATASETS:
        return ToyScenario(name, file=files_of(DATASETS, name, data_dir(data))[0])
    if name not in PRESETS:
        raise unknown_name("scenario", name, [*PRESETS, *DATASETS])
    return PRESETS[name]


def from_json(entry: Mapping[str, Any], data: Path | None) -> ToyScenario:
    """Back from `to_json`."""
    try:
        return ToyScenario(**{**entry, "file": None if entry["file"] is None else Path(entry["file"])})
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a scenario: {error}") from error


@dataclass(frozen=True)
class ToyFlags:
    """Which jobs come."""

    scenario: str = "calm"
    """calm, busy (generated) or jobs (a dataset)."""
    data: Annotated[Path | None, metavar("DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    jobs: int | None = None
    """How many (default: 60)."""

    def chosen(self, name: str | None = None) -> ToyScenario:
        """The scenario that the flags describe."""
        toy_scenario = parse(name or self.scenario, self.data)
        return toy_scenario if self.jobs is None else replace(toy_scenario, jobs=self.jobs)
