"""From `proreus VERB WORLD ...` to the flags of that world: its scenarios, its policies, the verb's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, fields, make_dataclass
from typing import Annotated, Any, TypeVar

import tyro

from proreus.cli.arguments import parse_named
from proreus.contract.scenario import Scenario
from proreus.contract.world import World
from proreus.model.errors import UsageError
from proreus.policies.catalogue import PLANNER, Catalogue
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
    count = len(catalogue.main) if usual == "policies" else 1
    default, several = ",".join(catalogue.main[:count]), bool(catalogue.what)
    about = "The policy" if usual == "policy" else "Policies, separated by commas"
    names = f"{about}: a name, the path of a checkpoint or run, or file.py:Class."
    if several:
        usually = (
            f"{','.join(each_catalogue.main[:count])} over {each_catalogue.what}"
            for each_catalogue in _catalogues(world)
        )
        names = f"{names} Default: {'; '.join(usually)}."
    more: list[tuple[str, Any, Any]] = [
        (usual, Annotated[str, tyro.conf.arg(help=names)], field(default="" if several else default)),
        ("workload", world.flags, field(default_factory=world.flags)),
    ]
    if tuning := _tuning_of(world):
        more.append(("tuning", tuning, field(default_factory=tuning)))
    whole = make_dataclass(f"{verb.title()}{world.name.title()}", more, bases=(kind,), frozen=True)
    known = list(registered())
    parsed: tuple[str, Flags] = parse_named(whole, verb, ("world", known), words, describe(world, verb))
    return parsed[1]


def _catalogues(world: World) -> list[Catalogue]:
    """One for each kind of scenario."""
    catalogues = (world.policies(world.flags().chosen(preset)) for preset in world.presets)
    return list({catalogue.what: catalogue for catalogue in catalogues}.values())


def _tuning_of(world: World) -> type[Any] | None:
    """The flags that policies read, of every kind of scenario in one."""
    kinds = tuple(
        dict.fromkeys(catalogue.options for catalogue in _catalogues(world) if catalogue.options is not None)
    )
    if len(kinds) < 2:
        return kinds[0] if kinds else None

    def check(tuning: Any) -> None:
        for kind in kinds:
            if hasattr(kind, "__post_init__"):
                kind.__post_init__(tuning)

    name, namespace = f"{world.name.title()}Tuning", {"__post_init__": check}
    return make_dataclass(name, (), bases=kinds, frozen=True, namespace=namespace)


def tuning_for(world: World, scenario: Scenario, arguments: Any) -> Any:
    """What the flags tell the policies of a scenario; a UsageError where they are of another kind."""
    tuning, read = getattr(arguments, "tuning", None), world.policies(scenario).options
    known = {entry.name for entry in fields(read)} if read is not None else set()
    for entry in fields(tuning) if tuning is not None else ():
        if entry.name not in known and getattr(tuning, entry.name) != entry.default:
            flag = entry.name.replace("_", "-")
            raise UsageError(f"--{flag}: no policy over {world.policies(scenario).what} reads it")
    if read is None or tuning is None:
        return None
    # Of the kind's own class: the one for all kinds is made here, and other processes do not know it.
    return read(**{name: getattr(tuning, name) for name in known})


def check_objective(catalogue: Catalogue, tuning: Any, policies: Sequence[str]) -> None:
    """Refuse wishes that none of the policies would hear."""
    if not getattr(tuning, "objective", ""):
        return
    # A planner plays with another policy, which may weigh objectives.
    if not any(catalogue.weighs(name) or name.partition("@")[0] == PLANNER for name in policies):
        raise UsageError(
            f"--objective: no policy weighs any ({', '.join(policies)}); those that adapt do, such as learned"
        )


def describe(world: World, verb: str) -> str:
    """For --help: the policies of every kind of scenario, and an example."""
    sentences = " ".join(
        f"Policies{f' over {catalogue.what}' if catalogue.what else ''}: {', '.join(catalogue.names)}."
        for catalogue in _catalogues(world)
    )
    example = world.examples.get(verb, f"proreus {verb} {world.name} --scenario {world.presets[0]}")
    others = ", ".join(name for name in registered() if name != world.name)
    return f"{world.name}: {world.what}. {sentences} Other worlds: {others}.\n\nExample: {example}"
