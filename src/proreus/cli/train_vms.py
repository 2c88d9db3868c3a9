"""`proreus train vms`: learn where virtual machines go; Ctrl-C saves, `--resume` goes on where it stopped.

Each algorithm has flags of its own, in a module that is imported when it is asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro

from proreus.cli.arguments import new_console
from proreus.cli.training import Asked, RunArguments, algorithm_of, check_installed
from proreus.cli.worlds import WorldCommand
from proreus.learning.runs import SETTINGS, read_settings
from proreus.model.errors import InputError, UsageError
from proreus.reading.catalogue import data_dir
from proreus.worlds.vms.model import VmTrace
from proreus.worlds.vms.scenarios import VmScenario, parse_vm_scenario, trace_of
from proreus.worlds.vms.traces.generate import generate_vms

WORLD = "vms"
VmsAlgorithm = Literal["es", "qmix", "ppo", "ddqn"]
VmsAlgo = Annotated[
    VmsAlgorithm,
    tyro.conf.arg(
        help="es: evolution strategy over a linear scorer that starts from first fit; qmix: servers as "
        "agents that bid, and a mixer of their values; ppo: a network that bids; ddqn: a network that values "
        "every place. "
        "Each has flags of its own: --algo qmix --help."
    ),
]
_MODULES = {
    "es": "proreus.cli.train_vms_es",
    "qmix": "proreus.cli.train_vms_networks",
    "ppo": "proreus.cli.train_vms_networks",
    "ddqn": "proreus.cli.train_vms_networks",
}
_GENERATED_MACHINES = 110_000
_GENERATED_SEED = 1_000_000


@dataclass(frozen=True)
class VmsTrainArguments(RunArguments):
    """Flags of `proreus train vms` that every algorithm has."""

    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/vms")
    """The folder of the run: settings, journal, checkpoints, TensorBoard files."""
    scenario: str = "waiting"
    """waiting, recovering, ... (generated machines), or huawei/waiting; @5: servers."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets; or set PROREUS_DATA."""


def asked_of(arguments: VmsTrainArguments) -> Asked[VmScenario]:
    """Reads the settings of the run that is resumed, where one is."""
    past, name = None, arguments.scenario
    if arguments.resume is not None:
        past = read_settings(arguments.resume, WORLD)
        try:
            name = str(past["scenarios"][0]["name"])
        except (IndexError, KeyError, TypeError) as error:
            file = arguments.resume / SETTINGS
            raise InputError("cannot be resumed: names no scenario", file=file, field="scenarios") from error
    scenario = parse_vm_scenario(name, data_dir(arguments.data) if "/" in name else None)
    if scenario.file is not None and scenario.load_factor > 1:
        raise UsageError(f"scenario {name!r}: training is on the load of the trace itself, without x")
    return Asked(arguments, (scenario,), past)


def training_trace(scenario: VmScenario) -> VmTrace:
    """The trace whose parts are trained and judged on; a generated one is far from those of comparisons."""
    with new_console().status(f"reading {scenario.name}"):
        if scenario.file is not None:
            return trace_of(scenario.file)
        return generate_vms(_GENERATED_MACHINES, _GENERATED_SEED, density=float(scenario.load_factor))


def _command(words: Sequence[str]) -> WorldCommand:
    """What `proreus train vms` does with the algorithm that the words ask for."""
    algorithm = algorithm_of(words, WORLD, get_args(VmsAlgorithm))
    check_installed("cmaes" if algorithm == "es" else "torch", f"proreus train {WORLD} --algo {algorithm}")
    commands: dict[str, WorldCommand] = importlib.import_module(_MODULES[algorithm]).COMMANDS
    return commands[algorithm]


COMMAND = _command
