"""`proreus train vms`: learn where virtual machines go; Ctrl-C saves, `--resume` goes on where it stopped."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.cli.arguments import Output, new_console, prepare
from proreus.cli.training import interrupted_and_saved, kept_work_named, shown
from proreus.cli.worlds import WorldCommand
from proreus.compare.vms import VmScenario, parse_vm_scenario, trace_of
from proreus.compare.workers import available_cores
from proreus.learning.runs import SETTINGS, read_settings
from proreus.learning.threads import Threads
from proreus.learning.vms_es import VmsESConfig, evolve_vms
from proreus.learning.vms_run import VmsEvolutionRun
from proreus.model.errors import InputError, UsageError
from proreus.model.files import write_atomically
from proreus.model.vm import VmTrace
from proreus.traces.catalogue import data_dir
from proreus.traces.vm_generate import generate_vms

_GENERATED_MACHINES = 110_000
_GENERATED_SEED = 1_000_000


@dataclass(frozen=True)
class TrainArguments:
    """Flags of `proreus train vms`."""

    algo: Literal["es"] = "es"
    """es: evolution strategy over a linear scorer that starts from first fit."""
    scenario: str = "waiting"
    """waiting (generated machines) or huawei/waiting: machines wait for room; @5: servers."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    evolution: VmsESConfig = field(default_factory=VmsESConfig)
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/vms")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run: scenario and settings are those it was started with."""
    processes: int = 0
    """Threads; 0: one per core. Does not change the result."""
    output: Output = field(default_factory=Output)


def run(arguments: TrainArguments, command: str) -> int:
    """Train until done or interrupted."""
    prepare(arguments.output)
    if arguments.processes < 0:
        raise UsageError(f"--processes {arguments.processes} is negative")
    name, config = _asked(arguments)
    scenario = parse_vm_scenario(name, data_dir(arguments.data) if "/" in name else None)
    folder, console = arguments.resume or arguments.out, new_console()
    with console.status(f"reading {name}"):
        trace = _trace(scenario)
    record = VmsEvolutionRun(folder, config, name, resume=arguments.resume is not None)
    threads = Threads(arguments.processes or available_cores())
    try:
        with kept_work_named(folder), closing(record), closing(threads), shown(console, "es") as show:
            for generation in evolve_vms(config, trace, scenario.options, threads, record.past_fitness):
                console.print(record.add(generation))
                rate = generation.decisions / max(generation.seconds, 1e-9)
                show(generation.number + 1, config.generations, f"{rate:,.0f} decisions/s")
    except KeyboardInterrupt:
        raise interrupted_and_saved(folder) from None
    console.print(f"best checkpoint: {folder / 'best'}", soft_wrap=True)
    if arguments.output.json is not None:
        write_atomically(arguments.output.json, (json.dumps(record.summary(), indent=2) + "\n").encode())
    return 0


def _asked(arguments: TrainArguments) -> tuple[str, VmsESConfig]:
    """(scenario, settings): as the flags say, or as the run that is resumed says."""
    if arguments.resume is None:
        return arguments.scenario, arguments.evolution
    past = read_settings(arguments.resume)
    file = arguments.resume / SETTINGS
    if past.get("world") != "vms":
        raise InputError("cannot be resumed: not a run of the world vms", file=file, field="world")
    try:
        stored = past["config"]
        # JSON knows no tuples.
        config = VmsESConfig(**{**stored, "servers": tuple(stored["servers"])})
        return str(past["scenarios"][0]["name"]), config
    except (KeyError, IndexError, TypeError, UsageError) as error:
        raise InputError(f"cannot be resumed: {error}", file=file, field="config") from error


def _trace(scenario: VmScenario) -> VmTrace:
    if scenario.file is not None:
        return trace_of(scenario.file)
    return generate_vms(_GENERATED_MACHINES, _GENERATED_SEED)


COMMAND = WorldCommand(
    TrainArguments,
    run,
    "Example: proreus train vms --algo es --scenario huawei/waiting --generations 40 --out runs/vms",
)
