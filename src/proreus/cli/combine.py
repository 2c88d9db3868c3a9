"""`proreus combine WORLD RUN...`: put specialists together into one policy that knows the demand."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import tyro

from proreus.cli.arguments import CommonArguments, parse_named, prepare
from proreus.cli.output import new_console, write_json
from proreus.contract.world import World
from proreus.learning.run_folder import code_version
from proreus.model.errors import UsageError
from proreus.model.files import check_folder
from proreus.policies.checkpoint import is_checkpoint, save_checkpoint
from proreus.worlds import registered
from proreus.worlds import world as world_of

_DESCRIPTION = """One policy of several training runs, each an expert for the demand that it was trained on.

The demand on the cluster says how much each expert counts; one that is unlike all of them is left to the
strongest rule. `learned` and other policies that adapt bring their experts along.

Example: proreus combine pods runs/gpu runs/cpu-heavy --out runs/adaptive"""


@dataclass(frozen=True)
class CombineArguments:
    """Flags of `proreus combine`."""

    sources: tyro.conf.Positional[tuple[str, ...]] = ()
    """Folders of training runs (es), `learned`, or checkpoints that adapt already; of pods also
    POLICY=SCENARIO,SCENARIO: a rule or any checkpoint of es as the expert for those."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/adaptive")
    """The checkpoint to write."""
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None
    """The folder of datasets, for POLICY=SCENARIO; or set PROREUS_DATA."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Combine, and say of what."""
    able = [name for name in registered() if world_of(name).combine]
    name, arguments = parse_named(CombineArguments, "combine", ("world", able), words, _DESCRIPTION)
    world = world_of(name)
    prepare(arguments.common)
    if not arguments.sources:
        raise UsageError(f"name at least one training run: proreus combine {world.name} runs/x --out runs/z")
    check_folder(arguments.out)
    if is_checkpoint(arguments.out):
        raise UsageError(f"--out {arguments.out}: there is a checkpoint already")
    _combine(world, arguments)
    return 0


def _combine(world: World, arguments: CombineArguments) -> None:
    module, _, name = world.combine.partition(":")
    checkpoint = getattr(importlib.import_module(module), name)(arguments.sources, arguments.data)
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    card = replace(checkpoint.card, commit=code_version(), created=created)
    save_checkpoint(arguments.out, replace(checkpoint, card=card))
    console = new_console(arguments.common)
    for expert in card.config["experts"]:
        console.print(f"expert: {expert}", soft_wrap=True, highlight=False)
    console.print(f"objectives: {', '.join(card.config['objectives'])}", soft_wrap=True, highlight=False)
    console.print(f"checkpoint: {arguments.out}", soft_wrap=True, highlight=False)
    write_json(arguments.common, asdict(card))
