"""`proreus train vms`: learn where virtual machines go; Ctrl-C saves, `--resume` goes on as if nothing had happened."""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from proreus.cli.arguments import Common, new_console, prepare
from proreus.cli.compare import split_names
from proreus.cli.worlds import WorldCommand
from proreus.compare.vms import VmScenario, parse_vm_scenario, trace_of
from proreus.compare.workers import available_cores
from proreus.learning.runs import read_settings
from proreus.model.errors import UsageError
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
    """waiting (generated machines) or huawei/waiting: where machines wait; @5: servers."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""
    generations: int = 60
    """How many populations to try."""
    population: int = 20
    """Weight vectors per generation."""
    sigma: float = 0.5
    """Width of the first population."""
    servers: str = ""
    """Sizes of cluster to train on, separated by commas; "": the scenario's."""
    starts: int = 240
    """Runs per member, generation and size, from the training part of the trace."""
    validation_starts: int = 800
    """Runs by which the result is judged while training, from the validation part."""
    evaluate_every: int = 5
    """Generations between judgements."""
    goal: Literal["log", "trimmed"] = "log"
    """What to lower: the mean logarithm of the total wait, or its trimmed mean."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/vms")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run: scenario and settings are those it was started with."""
    processes: int = 0
    """Threads; 0: one per core."""
    common: Common = field(default_factory=Common)


def run(arguments: TrainArguments, command: str) -> int:
    """Train until done or interrupted."""
    prepare(arguments.common)
    if importlib.util.find_spec("cmaes") is None:
        raise UsageError("training needs the extra `learn`: pip install 'proreus[learn]'")
    from proreus.learning.threads import Threads
    from proreus.learning.vms_es import VmsESConfig, evolve_vms  # cmaes comes with the extra `learn`
    from proreus.learning.vms_run import VmsEvolutionRun

    past = read_settings(arguments.resume) if arguments.resume is not None else None
    name = arguments.scenario if past is None else str(past["scenarios"][0])
    scenario = parse_vm_scenario(name, data_dir(arguments.data) if "/" in name else None)
    if past is None:
        config = VmsESConfig(
            generations=arguments.generations,
            population=arguments.population,
            sigma=arguments.sigma,
            servers=_sizes(arguments.servers) or (scenario.options.first_servers,),
            starts=arguments.starts,
            validation_starts=arguments.validation_starts,
            evaluate_every=arguments.evaluate_every,
            goal=arguments.goal,
            seed=arguments.common.seed,
        )
    else:
        config = VmsESConfig(**{**past["config"], "servers": tuple(past["config"]["servers"])})
    folder = arguments.resume or arguments.out
    console = new_console()
    with console.status(f"reading {name}"):
        trace = _trace(scenario)
    threads = Threads(arguments.processes or available_cores())
    record = VmsEvolutionRun(folder, config, name, resume=arguments.resume is not None)
    generations = evolve_vms(config, trace, scenario.options, threads, record.past_fitness)
    try:
        with console.status("compiling kernels, first generation") as status:
            for generation in generations:
                console.print(record.add(generation))
                rate = generation.decisions / max(generation.seconds, 1e-9)
                done = f"{generation.number + 1} of {config.generations} done"
                status.update(f"{done}, {rate:,.0f} decisions/s")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted and saved: go on with --resume {folder}") from None
    finally:
        record.close()
        threads.close()
    console.print(f"best checkpoint: {folder / 'best'}", soft_wrap=True)
    if arguments.common.json is not None:
        text = json.dumps(record.summary(), indent=2) + "\n"
        write_atomically(arguments.common.json, text.encode())
    return 0


def _sizes(text: str) -> tuple[int, ...]:
    names = split_names(text)
    if not all(name.isdecimal() for name in names):
        raise UsageError(f"--servers {text!r}: numbers of servers, separated by commas")
    return tuple(int(name) for name in names)


def _trace(scenario: VmScenario) -> VmTrace:
    if scenario.file is not None:
        return trace_of(scenario.file)
    return generate_vms(_GENERATED_MACHINES, _GENERATED_SEED)


COMMAND = WorldCommand(
    TrainArguments,
    run,
    "Example: proreus train vms --algo es --scenario huawei/waiting --generations 40 --out runs/vms",
)
