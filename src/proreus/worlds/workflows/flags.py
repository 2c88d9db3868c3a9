"""The flags that say which workflows run on which machines, shared by the verbs of the world `workflows`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from proreus.contract.flags import metavar, names_files
from proreus.contract.scenario import Part
from proreus.contract.world import PLAYING
from proreus.data.catalogue import data_dir
from proreus.model.errors import UsageError
from proreus.worlds.workflows.model import MachineKind
from proreus.worlds.workflows.scenarios import WorkflowsScenario, check_parts, parse_scenario


@dataclass(frozen=True)
class WorkflowsFlags:
    """Which workflows come, and what they run on."""

    scenario: str = "busy"
    """[traces/]calm, busy, rush (workflows arrive, machines are rented) or static (one workflow a seed, as
    short as possible); @60: so many workflows a run."""
    data: Annotated[Path | None, metavar("DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    files: Annotated[Path | None, metavar("PATH")] = field(default=None, metadata=PLAYING)
    """Your own workflows: a file (WfFormat .json, Pegasus .xml or .dax) or a folder of them."""
    split: Part = field(default="test", metadata=PLAYING)
    """The part of the data: files and seeds of one part are in no other."""
    machines: str = ""
    """In place of the scenario's: 4x1/0.096+2x8/0.768 (count x speed/dollars an hour)."""
    load: float | None = None
    """The share of all machines' speed that the work which arrives would take (default: calm 0.1, busy 0.25,
    rush 0.5)."""
    deadline: float | None = None
    """From arrival to deadline: so many critical paths on the fastest machine (default: 5)."""
    billing: float | None = None
    """Seconds that a machine is rented for at a time (default: 3600)."""
    boot: float | None = None
    """Seconds until a machine that was not rented can work (default: 0)."""
    bandwidth: float | None = None
    """Bytes a second between machines (default: 125e6)."""

    def drawing(self, given: str) -> WorkflowsScenario:
        """Work that is another for every seed, of files or by the name of a scenario."""
        own = names_files(given, self.scenario, WorkflowsFlags.scenario)
        scenario = replace(self, files=Path(given)).chosen() if own else self.chosen(given)
        check_parts(scenario)
        return scenario

    def chosen(self, name: str | None = None) -> WorkflowsScenario:
        """The scenario that the flags describe; `name` in place of `--scenario`."""
        chosen = name or self.scenario
        # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
        needed = self.data is not None or "/" in chosen
        scenario = parse_scenario(chosen, data_dir(self.data) if needed else None)
        if self.files is not None:
            if scenario.files is not None:
                raise UsageError(f"--files are your own: write the scenario {chosen!r} without dataset")
            files = Path(self.files)  # in Python people write a str
            scenario = replace(scenario, name=f"{scenario.name}:{files.name}", files=files)
        changes: dict[str, Any] = {
            "machines": MachineKind.parse(self.machines) if self.machines else None,
            "deadline": self.deadline,
            "billing": self.billing,
            "boot": self.boot,
            "bandwidth": self.bandwidth,
        }
        terms = replace(scenario.terms, **{key: value for key, value in changes.items() if value is not None})
        if self.load is not None:
            if scenario.is_static or self.load <= 0:
                raise UsageError("--load is above 0, and nothing arrives in a static scenario")
            scenario = replace(scenario, load_share=self.load)
        return replace(scenario, terms=terms, part=self.split)
