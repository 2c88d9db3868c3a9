"""`proreus train WORLD`: learn a policy; Ctrl-C saves, `--resume` goes on as if nothing had happened."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from proreus.cli.arguments import Common, new_console, parse, prepare
from proreus.cli.compare import split_names
from proreus.cli.workloads import WorkloadArguments, scenario_of
from proreus.compare.scenario import Scenario
from proreus.compare.simulate import load_kernels
from proreus.compare.workers import available_cores, worker_pool
from proreus.model.errors import UsageError, unknown_name
from proreus.model.files import write_atomically

WORLDS = ("pods",)


@dataclass(frozen=True)
class EvolutionArguments:
    """Settings of the evolution strategy (--algo es)."""

    generations: int = 40
    """How many populations to try."""
    population: int = 16
    """Weight vectors per generation."""
    sigma: float = 0.3
    """Width of the first population around the starting rule."""
    by_demand: bool = False
    """Also learn how the weights shift with what the workload asks of the cluster."""
    train_seeds: int = 10
    """How many seeds training draws from (1000, 1001, ...)."""
    validation_seeds: int = 4
    """How many seeds the result is judged on while training (2000, 2001, ...)."""
    evaluate_every: int = 5
    """Generations between judgements."""


@dataclass(frozen=True)
class TrainArguments:
    """Flags of `proreus train pods`."""

    algo: Literal["es"] = "es"
    """es: evolution strategy over a linear scorer that starts from FGD."""
    scenarios: str = "gpu"
    """What to train on, separated by commas."""
    workload: WorkloadArguments = field(default_factory=WorkloadArguments)
    evolution: EvolutionArguments = field(default_factory=EvolutionArguments)
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/pods")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None
    """Go on with this run, with the settings it was started with."""
    processes: int = 0
    """Worker processes; 0: one per core."""
    common: Common = field(default_factory=Common)


def run(words: Sequence[str]) -> int:
    """Train until done or interrupted."""
    description = "Example: proreus train pods --algo es --scenarios gpu --generations 20 --out runs/x"
    if not words or words[0].startswith("-"):
        parse(TrainArguments, "proreus train pods", words, description)
        raise UsageError(f"name a world: {', '.join(WORLDS)}")
    world, *rest = words
    if world not in WORLDS:
        raise unknown_name("world", world, WORLDS)
    arguments = parse(TrainArguments, f"proreus train {world}", rest, description)
    prepare(arguments.common)
    if importlib.util.find_spec("cmaes") is None:
        raise UsageError("training needs the extra `learn`: pip install 'proreus[learn]'")
    names = split_names(arguments.scenarios)
    if not names:
        raise UsageError("--scenarios: name at least one")
    scenarios = tuple(scenario_of(arguments.workload, name) for name in names)
    return _evolve(arguments, scenarios, new_console())


def _evolve(arguments: TrainArguments, scenarios: tuple[Scenario, ...], console: Console) -> int:
    from proreus.learning.es import ESConfig, evolve  # cmaes comes with the extra `learn`
    from proreus.learning.evolution_run import EvolutionRun

    config = ESConfig(**asdict(arguments.evolution), seed=arguments.common.seed)
    folder = arguments.resume or arguments.out
    record = EvolutionRun(folder, config, [s.name for s in scenarios], resume=arguments.resume is not None)
    workers = arguments.processes or available_cores()
    runs = config.population * len(scenarios)
    console.print(f"{len(scenarios)} scenarios x {config.population} members = {runs} runs a generation")
    load_kernels()
    try:
        with worker_pool(workers) as pool, console.status("first generation") as status:
            for generation in evolve(config, scenarios, pool, record.past_fitness):
                console.print(record.add(generation))
                rate = runs / max(generation.seconds, 1e-9)
                status.update(f"{generation.number + 1} of {config.generations} done, {rate:.1f} runs/s")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"interrupted and saved: go on with --resume {folder}") from None
    finally:
        record.close()
    console.print(f"best checkpoint: {folder / 'best'}", soft_wrap=True)
    if arguments.common.json is not None:
        write_atomically(arguments.common.json, (json.dumps(record.summary(), indent=2) + "\n").encode())
    return 0
