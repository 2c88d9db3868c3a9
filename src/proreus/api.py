"""Proreus from Python: what the command line does, as values for notebooks and programs.

>>> import proreus
>>> proreus.compare("pods", scenarios="gpu", policies=["kube", "fgd"], seeds=3).plot()

`proreus simulate` and `proreus compare` call the same functions, so the numbers are the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from proreus.contract.own import scenario_named
from proreus.contract.scenario import Scenario
from proreus.contract.world import World
from proreus.model.errors import UsageError, unknown_name
from proreus.policies.catalogue import AnyPolicy
from proreus.worlds import registered
from proreus.worlds import world as world_of

Named = str | AnyPolicy
"""A policy, or its name: a rule, `learned`, a checkpoint, a run, `mine.py:MyPolicy`."""


def worlds() -> tuple[str, ...]:
    """The names of all worlds."""
    return tuple(registered())


def world(name: str) -> World:
    """The world of that name."""
    return world_of(name)


def scenarios(world: str, data: Path | str | None = None) -> tuple[str, ...]:
    """Names of scenarios: those that are generated, and the datasets that the data folder holds."""
    from proreus.reading.catalogue import data_dir, holds, known

    found = world_of(world)
    folder = data_dir(Path(data) if data is not None else None)
    here = [name for name in known(found.datasets, folder) if holds(found.datasets, name, folder)]
    return (*found.presets, *here)


def scenario(world: str, name: str = "", **flags: Any) -> Scenario:
    """A scenario by name, changed as the flags of the command line would change it: `starts=5`."""
    found = world_of(world)
    known = {field: flag for field in found.flags.__dataclass_fields__ for flag in (field,)}  # type: ignore[attr-defined]
    for flag in flags:
        if flag not in known:
            raise unknown_name("option", flag, known)
    paths = {
        name: Path(value) if isinstance(value, str) and name == "data" else value
        for name, value in flags.items()
    }
    return scenario_named(found, found.flags(**paths), name or None)


def make_policy(
    world: str, name: str, *, seed: int = 0, scenario: Scenario | None = None, **options: Any
) -> AnyPolicy:
    """A policy of the world by name, with the options that the command line has as flags: `tie="random"`."""
    catalogue = world_of(world).policies(scenario)
    if options and catalogue.options is None:
        raise UsageError(f"policies of the world {world!r} have no options")
    chosen = catalogue.options(**options) if options and catalogue.options is not None else None
    return catalogue.make(name, chosen, seed)


def load_policy(path: Path | str, *, seed: int = 0) -> AnyPolicy:
    """The policy of a checkpoint, or of a training run's best one; its card says which world it plays."""
    from proreus.policies.checkpoint import CARD, is_checkpoint, read_card

    for folder in (Path(path), Path(path) / "best"):
        if is_checkpoint(folder):
            return make_policy(read_card(folder / CARD).world, str(folder), seed=seed)
    raise UsageError(f"{path} is neither a checkpoint nor a training run")
