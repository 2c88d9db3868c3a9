"""The flags that say which requests come to which nodes, shared by the verbs of the world `functions`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from proreus.contract.flags import metavar, names_files
from proreus.contract.scenario import Part
from proreus.contract.world import PLAYING
from proreus.data.catalogue import data_dir
from proreus.model.errors import UsageError
from proreus.worlds.functions.model import NodeKind
from proreus.worlds.functions.scenarios import FunctionsScenario, check_parts, parse_scenario


@dataclass(frozen=True)
class FunctionsFlags:
    """Which requests come, and what serves them."""

    scenario: str = "busy"
    """calm, busy, rush (generated), azure2021/recorded or azure2019/recorded; @120: for so many seconds."""
    data: Annotated[Path | None, metavar("DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    files: Annotated[Path | None, metavar("PATH")] = field(default=None, metadata=PLAYING)
    """Your own recording: a table arrival,function,duration, one of Azure 2021, or a folder as of 2019."""
    split: Part = field(default="test", metadata=PLAYING)
    """The part of the data: seeds and hours of one part are in no other."""
    nodes: str = ""
    """In place of the scenario's: 4x2/8/0.086+2x8/32/0.344 (count x cores / GB / dollars an hour)."""
    functions: int | None = None
    """How many are generated (default: 20)."""
    load: float | None = None
    """The share of all CPU that generated requests use (default: calm 0.1, busy 0.25, rush 0.5)."""
    beta: float | None = None
    """What response time counts beside cost, 0 to 1 (default: 0.7)."""
    patience: float | None = None
    """Seconds after which a request that waits for an instance is dropped (default: 60)."""
    slo: float | None = None
    """The relative response time up to which a request meets its objective (default: 2)."""

    def drawing(self, given: str) -> FunctionsScenario:
        """Work that is another for every seed, drawn from a recording or by the name of a scenario."""
        own = names_files(given, self.scenario, FunctionsFlags.scenario)
        scenario = replace(self, files=Path(given)).chosen() if own else self.chosen(given)
        check_parts(scenario)
        return scenario

    def chosen(self, name: str | None = None) -> FunctionsScenario:
        """The scenario that the flags describe; `name` in place of `--scenario`."""
        chosen = name or self.scenario
        # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
        needed = self.data is not None or "/" in chosen
        scenario = parse_scenario(chosen, data_dir(self.data) if needed else None)
        if self.files is not None:
            if scenario.files is not None:
                raise UsageError(f"--files are your own: write the scenario {chosen!r} without dataset")
            scenario = replace(scenario, name=f"{scenario.name}:{self.files.name}", files=self.files)
        changes: dict[str, Any] = {
            "nodes": NodeKind.parse(self.nodes) if self.nodes else None,
            "beta": self.beta,
            "patience": self.patience,
            "slo": self.slo,
        }
        terms = replace(scenario.terms, **{key: value for key, value in changes.items() if value is not None})
        for flag, known in (("load", self.load), ("functions", self.functions)):
            if known is not None and scenario.files is not None:
                raise UsageError(f"--{flag} is of requests that are generated, not of recorded ones")
        if self.load is not None:
            scenario = replace(scenario, load_share=self.load)
        if self.functions is not None:
            scenario = replace(scenario, functions=self.functions)
        return replace(scenario, terms=terms, part=self.split)
