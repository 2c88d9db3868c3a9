"""The flags that say which virtual machines run on which servers, shared by the verbs of the world `vms`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from proreus.contract.flags import metavar, names_files
from proreus.contract.world import PLAYING
from proreus.data.catalogue import data_dir
from proreus.model.errors import UsageError
from proreus.worlds.vms.datasets.huawei import Split
from proreus.worlds.vms.model import DoubleRule, Full, ServerShape
from proreus.worlds.vms.scenarios import VmScenario, parse_vm_scenario

_RUNS_OF_A_DRAW = 10
_RUNS_TIMES_SERVERS = 500
"""Where runs are as long as the cluster is large: so many that a few long waits do not rule a draw."""
_MACHINES_OF_A_RUN = 5_000
"""Where machines do not wait: with longer runs, all draws of a trace would be the same machines."""


@dataclass(frozen=True)
class VmsFlags:
    """Where the machines come from and where they may go."""

    scenario: str = "recovering@20"
    """[huawei/]fading, recovering, recovering-large, expansion, waiting, rejecting; @20 servers, x3 load.
    expansion has 100 servers, which the usual load does not fill: expansion@20 grows."""
    data: Annotated[Path | None, metavar("DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    trace: Annotated[Path | None, metavar("FILE")] = field(default=None, metadata=PLAYING)
    """Your own trace: events (vmid,cpu,memory,time,type) or lifetimes (vmid,cpu,mem,at,lt)."""
    starts: int = field(default=20, metadata=PLAYING)
    """Runs per seed, each from a start of its own."""
    split: Split = field(default="test", metadata=PLAYING)
    """The part of the trace in which runs start and end: parts share no machine. Where machines wait, runs
    have SPANE's length instead, which may lead some hundred machines past the border."""
    limit: int = field(default=0, metadata=PLAYING)
    """Machines of a run; 0: to the end of the part, or SPANE's length where machines wait."""
    servers: str = ""
    """In place of the scenario's: 5x40/90, or mixed as 3x40/90+2x64/256 (count x cores/GB of a NUMA node)."""
    double: str = ""
    """Which machines take both NUMA nodes, in place of the scenario's rule: mem>10, cpu>10 or cpu>=10."""
    full: Full | None = None
    """A machine that fits nowhere: ends the run, is rejected, or waits (default: as the scenario has it)."""
    release: bool | None = None
    """Whether deleted machines give back what they took (default: as the scenario has it)."""
    growing_nums: int | None = None
    """Servers to add each time the cluster is too full (default: as the scenario has it)."""
    expand_threshold: float | None = None
    """The share in use above which they are added."""
    start: Annotated[int | None, metavar("ROW")] = field(default=None, metadata=PLAYING)
    """One run, from this machine of the trace (0 is the first), in place of --starts."""

    def drawing(self, given: str) -> VmScenario:
        """Work that is another for every seed: runs from other places of a trace in a file or of a dataset,
        each within its part, or generated machines by the name of a scenario."""
        own = names_files(given, self.scenario, VmsFlags.scenario)
        scenario = replace(self, trace=Path(given)).chosen() if own else self.chosen(given)
        if scenario.load_factor > 1:
            raise UsageError(f"--from {given}: training is on the load of the trace itself, without x")
        options, runs = scenario.options, _RUNS_OF_A_DRAW
        if options.full != "reject":
            runs = max(runs, _RUNS_TIMES_SERVERS // options.first_servers)
        limit = 0 if options.full == "wait" else _MACHINES_OF_A_RUN
        return replace(scenario, starts=runs, limit=limit, lists=(), apart=scenario.file is not None)

    def chosen(self, name: str | None = None) -> VmScenario:
        """The scenario that the flags describe; `name` in place of `--scenario`."""
        chosen = name or self.scenario
        # Generated work needs no data folder: a stale PROREUS_DATA is no reason to refuse it.
        needed = self.data is not None or "/" in chosen
        scenario = parse_vm_scenario(chosen, data_dir(self.data) if needed else None)
        if self.trace is not None:
            if scenario.file is not None or scenario.load_factor > 1:
                raise UsageError(
                    f"--trace is your own: write the scenario {chosen!r} without dataset and load"
                )
            scenario = replace(scenario, name=f"{scenario.name}:{self.trace.name}", file=self.trace)
        changes: dict[str, Any] = {
            "servers": ServerShape.parse(self.servers) if self.servers else None,
            "double": DoubleRule.parse(self.double) if self.double else None,
            "full": self.full,
            "release": self.release,
            "growth": self.growing_nums,
            "threshold": self.expand_threshold,
        }
        options = replace(
            scenario.options, **{key: value for key, value in changes.items() if value is not None}
        )
        starts = self.starts if self.start is None else 1
        return replace(
            scenario, options=options, starts=starts, only=self.start, part=self.split, limit=self.limit
        )
