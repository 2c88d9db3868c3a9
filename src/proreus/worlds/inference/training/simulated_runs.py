"""Runs of the simulator that a search asks for; those of rules, which it is held against, are played once.

Kept in a folder, those of rules serve the next seed of a search, too. A file is named after the scenario with
all its fields and the version of the package; whoever changes the simulator begins a new folder.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from proreus.model.errors import InputError
from proreus.model.files import write_atomically
from proreus.policies.catalogue import AnyPolicy
from proreus.version import __version__
from proreus.workers.cores import available_cores
from proreus.workers.processes import worker_pool
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.training.fluid_calibration import SimulatedRun, simulated
from proreus.worlds.inference.training.fluid_curriculum import is_long

_FEW = 8
"""Runs that are over before processes for them have started."""


def simulated_runs(
    scenario: InferenceScenario, seeds: Sequence[int], policy: AnyPolicy
) -> list[SimulatedRun]:
    """[seeds] in processes, where they are many: between two decisions a run is Python, one at a time."""
    if len(seeds) <= _FEW and not is_long(scenario):
        return [simulated(scenario, seed, policy) for seed in seeds]
    with worker_pool(min(available_cores(), max(len(seeds), 1))) as processes:
        return list(processes.map(simulated, repeat(scenario), seeds, repeat(policy)))


class RuleRuns:
    """Runs by scenario, rule and seed."""

    def __init__(self, folder: Path | None = None, pool: Executor | None = None) -> None:
        """`pool`: of processes that play; None: some are started where there is much to play."""
        self._folder, self._pool = folder, pool
        self._runs: dict[tuple[InferenceScenario, str], dict[int, SimulatedRun]] = {}
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)

    def of(self, scenario: InferenceScenario, rule: str, seeds: Sequence[int]) -> list[SimulatedRun]:
        """[seeds] played now, unless they were before."""
        known = self._runs.setdefault((scenario, rule), self._kept(scenario, rule))
        missing = [seed for seed in seeds if seed not in known]
        known |= zip(missing, self._play(scenario, missing, POLICIES.make(rule)), strict=True)
        if missing and self._folder is not None:
            runs = {seed: {**asdict(run), "active": run.active.tolist()} for seed, run in known.items()}
            write_atomically(self._file(self._folder, scenario, rule), json.dumps(runs).encode())
        return [known[seed] for seed in seeds]

    def _play(
        self, scenario: InferenceScenario, seeds: Sequence[int], policy: AnyPolicy
    ) -> list[SimulatedRun]:
        if self._pool is None:
            return simulated_runs(scenario, seeds, policy)
        return list(self._pool.map(simulated, repeat(scenario), seeds, repeat(policy)))

    def _kept(self, scenario: InferenceScenario, rule: str) -> dict[int, SimulatedRun]:
        if self._folder is None or not (file := self._file(self._folder, scenario, rule)).exists():
            return {}
        try:
            entries: dict[str, dict[str, Any]] = json.loads(file.read_bytes())
            return {
                int(seed): SimulatedRun(**{**entry, "active": np.array(entry["active"], dtype=np.float64)})
                for seed, entry in entries.items()
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"these are no runs of a rule: {error}", file=file) from error

    @staticmethod
    def _file(folder: Path, scenario: InferenceScenario, rule: str) -> Path:
        described = json.dumps([scenario.to_json(), __version__], sort_keys=True)
        digest = hashlib.sha256(described.encode()).hexdigest()[:12]
        return folder / f"{scenario.name}-{scenario.part}-{rule}-{digest}.json"
