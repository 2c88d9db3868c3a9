"""`proreus train WORLD --algo es`: the evolution strategy."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from proreus.cli.arguments import new_console
from proreus.cli.training import (
    Algo,
    Asked,
    TrainArguments,
    finish,
    interrupted_and_saved,
    kept_work_named,
    shown,
)
from proreus.learning.evolution_run import PodsEvolutionRun
from proreus.workers.processes import pool_of
from proreus.worlds.pods.play import load_kernels
from proreus.worlds.pods.scenarios import Scenario
from proreus.worlds.pods.training.goal import ESConfig, evolve


@dataclass(frozen=True)
class Arguments(TrainArguments):
    """Flags of `proreus train pods --algo es`."""

    algo: Algo = "es"
    evolution: ESConfig = field(default_factory=ESConfig)


def train(asked: Asked[Scenario]) -> int:
    """Generation after generation, each of them kept."""
    arguments, scenarios, console = asked.arguments, asked.scenarios, new_console()
    assert isinstance(arguments, Arguments)
    config, folder = asked.config(arguments.evolution), arguments.folder
    runs = config.population * len(scenarios)
    workers = arguments.workers()
    record = PodsEvolutionRun(folder, config, scenarios, resume=asked.resumes)
    console.print(f"{len(scenarios)} scenarios x {config.population} members = {runs} runs a generation")
    try:
        with kept_work_named(folder), closing(record), shown(console, "es") as show:
            load_kernels()
            with pool_of(workers, runs) as pool:
                for generation in evolve(config, scenarios, pool, record.past_fitness):
                    console.print(record.add(generation))
                    rate = runs / max(generation.seconds, 1e-9)
                    show(generation.number + 1, config.generations, f"{rate:.1f} runs/s")
    except KeyboardInterrupt:
        raise interrupted_and_saved(folder) from None
    return finish(asked, record.summary(), console)
