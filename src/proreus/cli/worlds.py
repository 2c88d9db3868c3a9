"""From `proreus VERB WORLD ...` to the flags of that world: its scenarios, its policies, the verb's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, make_dataclass
from typing import Annotated, Any, TypeVar

import tyro

from proreus.cli.arguments import parse_named
from proreus.contract.world import World
from proreus.worlds import registered
from proreus.worlds import world as world_of

Flags = TypeVar("Flags")


def world_in(words: Sequence[str]) -> World:
    """The world that is named first; without one the first there is, whose flags --help then shows."""
    known = list(registered())
    return world_of(words[0] if words and words[0] in known else known[0])


def parse_in_world(verb: str, world: World, words: Sequence[str], kind: type[Flags], usual: str) -> Flags:
    """The words as flags of `kind`, with those of the world's scenarios (`workload`) and policies (`tuning`).

    `usual`: the verb's flag for policies, whose default is the world's own.
    """
    catalogue = world.policies(None)
    # A world with several kinds of scenario has several defaults: which one holds shows with the scenario.
    default = ",".join(catalogue.main) if usual == "policies" else catalogue.main[0]
    several = usual == "policies" and bool(catalogue.what)
    about = "The policy" if usual == "policy" else "Policies, separated by commas"
    names = f"{about}: a name, the path of a checkpoint or run, or file.py:Class."
    more: list[tuple[str, Any, Any]] = [
        (usual, Annotated[str, tyro.conf.arg(help=names)], field(default="" if several else default)),
        ("workload", world.flags, field(default_factory=world.flags)),
    ]
    if catalogue.options is not None:
        more.append(("tuning", catalogue.options, field(default_factory=catalogue.options)))
    whole = make_dataclass(f"{verb.title()}{world.name.title()}", more, bases=(kind,), frozen=True)
    known = list(registered())
    parsed: tuple[str, Flags] = parse_named(whole, verb, ("world", known), words, describe(world, verb))
    return parsed[1]


def describe(world: World, verb: str) -> str:
    """For --help: the policies of every kind of scenario, and an example."""
    seen: dict[str, str] = {}
    for preset in world.presets:
        catalogue = world.policies(world.flags().chosen(preset))
        seen.setdefault(catalogue.what, ", ".join(catalogue.names))
    told = " ".join(f"Policies{f' over {what}' if what else ''}: {names}." for what, names in seen.items())
    example = world.examples.get(verb, f"proreus {verb} {world.name} --scenario {world.presets[0]}")
    others = ", ".join(name for name in registered() if name != world.name)
    return f"{world.name}: {world.what}. {told} Other worlds: {others}.\n\nExample: {example}"
