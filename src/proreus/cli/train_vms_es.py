"""`proreus train vms --algo es`: the evolution strategy over a scorer of places."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

from proreus.cli.arguments import new_console, prepare
from proreus.cli.train_vms import VmsAlgo, VmsTrainArguments, asked_of, training_trace
from proreus.cli.training import finish, interrupted_and_saved, kept_work_named, shown
from proreus.cli.worlds import WorldCommand
from proreus.model.errors import UsageError
from proreus.workers.cores import available_cores
from proreus.workers.threads import Threads
from proreus.worlds.vms.training.goal import VmsESConfig, evolve_vms
from proreus.worlds.vms.training.run import VmsEvolutionRun


@dataclass(frozen=True)
class Arguments(VmsTrainArguments):
    """Flags of `proreus train vms --algo es`."""

    algo: VmsAlgo = "es"
    evolution: VmsESConfig = field(default_factory=VmsESConfig)
    processes: int = 0
    """Threads; 0: one per core. Does not change the result."""


def run(arguments: Arguments, command: str) -> int:
    """Train until done or interrupted."""
    prepare(arguments.output)
    if arguments.processes < 0:
        raise UsageError(f"--processes {arguments.processes} is negative")
    asked = asked_of(arguments)
    config, (scenario,) = asked.config(arguments.evolution), asked.scenarios
    folder, console = arguments.folder, new_console()
    trace = training_trace(scenario)
    record = VmsEvolutionRun(folder, config, scenario.name, resume=asked.resumes)
    threads = Threads(arguments.processes or available_cores())
    try:
        with kept_work_named(folder), closing(record), closing(threads), shown(console, "es") as show:
            for generation in evolve_vms(config, trace, scenario.options, threads, record.past_fitness):
                console.print(record.add(generation))
                rate = generation.decisions / max(generation.seconds, 1e-9)
                show(generation.number + 1, config.generations, f"{rate:,.0f} decisions/s")
    except KeyboardInterrupt:
        raise interrupted_and_saved(folder) from None
    return finish(asked, record.summary(), console)


COMMANDS = {
    "es": WorldCommand(
        Arguments,
        run,
        "Flags of --algo es. "
        "Example: proreus train vms --algo es --scenario huawei/waiting --generations 40 --out runs/vms",
    )
}
