"""`proreus train rebalance --algo es`: the evolution strategy over moves between windows."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.cli.arguments import Output, new_console, prepare
from proreus.cli.compare import split_names
from proreus.cli.training import interrupted_and_saved, kept_work_named, shown
from proreus.cli.worlds import WorldCommand
from proreus.learning.runs import SETTINGS, read_settings
from proreus.model.errors import InputError, UsageError
from proreus.model.files import write_atomically
from proreus.workers.threads import Threads
from proreus.worlds.rebalance.flags import WindowArguments, window_scenario_of
from proreus.worlds.rebalance.windows.scenarios import load_kernels
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig, evolve_moves
from proreus.worlds.rebalance.windows.training.run import WORLD, MovesRun


@dataclass(frozen=True)
class Arguments:
    """Flags of `proreus train rebalance`."""

    algo: Literal["es"] = "es"
    """The evolution strategy."""
    scenarios: str = "windows/serial,windows/parallel"
    """Scenarios of windows to train on, separated by commas; of recorded ones, the first part."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets, for recorded scenarios; or set PROREUS_DATA."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/rebalance")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run: scenarios and settings are those it was started with."""
    processes: int = 0
    """Threads; 0: one per core. Does not change the result."""
    evolution: MovesESConfig = field(default_factory=MovesESConfig)
    output: Output = field(default_factory=Output)


def run(arguments: Arguments, command: str) -> int:
    """Generation after generation, each of them kept."""
    prepare(arguments.output)
    if arguments.processes < 0:
        raise UsageError(f"--processes {arguments.processes} is negative")
    config, names = _asked(arguments)
    scenarios = [window_scenario_of(WindowArguments(name, arguments.data)) for name in names]
    folder, console = arguments.resume or arguments.out, new_console()
    record = MovesRun(folder, config, scenarios, resume=arguments.resume is not None)
    try:
        with (
            kept_work_named(folder),
            closing(record),
            closing(Threads(arguments.processes)) as threads,
            shown(console, "es") as show,
        ):
            load_kernels()
            for generation in evolve_moves(config, scenarios, threads, record.past_fitness):
                console.print(record.add(generation))
                show(generation.number + 1, config.generations, f"{generation.seconds:.1f} s a generation")
    except KeyboardInterrupt:
        raise interrupted_and_saved(folder) from None
    console.print(f"best checkpoint: {folder / 'best'}", soft_wrap=True)
    if arguments.output.json is not None:
        write_atomically(arguments.output.json, (json.dumps(record.summary(), indent=2) + "\n").encode())
    return 0


def _asked(arguments: Arguments) -> tuple[MovesESConfig, list[str]]:
    """As the flags say, or as the run that is resumed says."""
    if arguments.resume is None:
        if arguments.evolution.seed < 0:
            raise UsageError("--seed is negative")
        names = split_names(arguments.scenarios)
        if not names:
            raise UsageError("--scenarios: name at least one")
        return arguments.evolution, names
    past = read_settings(arguments.resume)
    known = {item.name for item in fields(MovesESConfig)}
    try:
        if past.get("world") != WORLD:
            raise UsageError(f"is a run of the world {past.get('world')!r}")
        config = MovesESConfig(**{name: value for name, value in past["config"].items() if name in known})
        return config, [str(entry["name"]) for entry in past["scenarios"]]
    except (TypeError, KeyError, UsageError) as error:
        raise InputError(f"cannot be resumed: {error}", file=arguments.resume / SETTINGS) from error


COMMAND = WorldCommand(
    Arguments,
    run,
    "Example: proreus train rebalance --algo es --scenarios windows/serial,windows/parallel --out runs/moves",
)
