"""`proreus tune WORLD --from WORK`: a policy trained for your own work, handed out where it is better."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from proreus.cli.arguments import CommonArguments, parse_named, prepare, without
from proreus.cli.output import new_console, write_json
from proreus.compare.tune import REPORT, Wish, tune
from proreus.compare.tune_page import as_json, findings, headline
from proreus.contract.world import World
from proreus.model.errors import UsageError
from proreus.workers.processes import Workers
from proreus.worlds import registered
from proreus.worlds import world as world_of


@dataclass(frozen=True)
class TuneArguments:
    """Flags of `proreus tune`."""

    work: Annotated[str, tyro.conf.arg(name="from", metavar="WORK")] = ""
    """Your work; every world says in its own help what it takes."""
    minutes: float = 10.0
    """How long all of it may take."""
    seeds: int = 10
    """Draws of the held-out part that policies are judged on, at least 5."""
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("runs/tuned")
    """Where the report goes, and the checkpoint where it is worth having; those of an earlier run are
    kept, in earlier-N."""
    processes: int = 0
    """Workers on this machine; 0: one per core."""
    common: CommonArguments = field(default_factory=CommonArguments)


def run(words: Sequence[str]) -> int:
    """Train, judge, tell."""
    able = [name for name in registered() if world_of(name).specialist]
    if words and words[0] in registered() and words[0] not in able:  # its --help would promise too much
        why = world_of(words[0]).not_tuned
        raise UsageError(
            f"tune: nothing can be trained for you in the world {words[0]!r}{f' ({why})' if why else ''}, "
            f"but in {', '.join(able)}"
        )
    world = world_of(words[0] if words and words[0] in able else able[0])
    arguments = _parsed(world, able, words)
    prepare(arguments.common)
    if not arguments.work:
        raise UsageError("--from: name your work, a file, a folder or a scenario")
    console = new_console(arguments.common)
    wish = Wish(
        scenario=arguments.workload.drawing(arguments.work),
        minutes=arguments.minutes,
        seeds=arguments.seeds,
        folder=arguments.out,
        workers=Workers(arguments.processes),
        seed=arguments.common.seed,
    )
    judged, about = tune(world, wish, lambda line: console.print(line, soft_wrap=True))
    lines = (*findings(judged), headline(judged, about.checkpoint), f"report: {wish.folder / REPORT}")
    console.print("\n".join(lines), soft_wrap=True)
    write_json(arguments.common, as_json(judged, about))
    return 0


def _parsed(world: World, able: Sequence[str], words: Sequence[str]) -> Any:
    flags = without(world.flags, _taken(world))
    about = f"Your work: {world.tunes_from}"
    work = Annotated[str, tyro.conf.arg(name="from", metavar="WORK", help=about)]
    more: list[tuple[str, Any, Any]] = [
        ("work", work, field(default="")),
        ("workload", flags, field(default_factory=flags)),
    ]
    kind = make_dataclass("Tune", more, bases=(TuneArguments,), frozen=True)
    description = (
        "Judges every rule on a held-out part of your work, trains a policy on another, and hands it out "
        "only where it is significantly better than the best rule and than what ships. "
        f"Worlds that can be tuned for: {', '.join(able)}.\n\n"
        f"Example: {world.examples.get('tune', f'proreus tune {world.name} --from {world.presets[0]}')}"
    )
    parsed: tuple[str, Any] = parse_named(kind, "tune", ("world", able), words, description)
    return parsed[1]


def _taken(world: World) -> dict[str, Any]:
    """Flags that say what to play, with their defaults: --from says so here, and its parts are known."""
    usual = world.flags()
    return {
        item.name: getattr(usual, item.name)
        for item in fields(world.flags)  # type: ignore[arg-type]  # a dataclass, as the contract says
        if item.metadata.get("tunes", True) is False or item.metadata.get("trains", True) is False
    }
