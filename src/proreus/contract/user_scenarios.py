"""Scenarios of one's own: `file.py:name` or `package.module:name`, or a JSON file that `to_json` wrote.

What the reference leads to is a scenario, or a function or class that makes one. It travels to worker
processes and into the settings of runs as that reference, so that it need not be picklable itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from proreus.contract.play import AnyPolicy, step_by_step
from proreus.contract.scenario import Headings, Part, Scenario
from proreus.contract.simulation import Simulation
from proreus.contract.world import Hear, Play, Played, ScenarioFlags, World
from proreus.model.errors import InputError, UsageError
from proreus.model.files import read_object
from proreus.policies.plugins import attribute_of, told_as_its_own

_KIND = "own"
_NEEDED = ("name", "world", "headings", "load", "start")


@dataclass(frozen=True)
class OwnScenario:
    """A stranger's scenario by reference; what it does not offer has a plain answer."""

    reference: str
    part: Part = "test"

    @property
    def _inner(self) -> Any:
        return _made(self.reference, self.part)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    @property
    def name(self) -> str:
        return str(self._inner.name)

    @property
    def world(self) -> str:
        """The world it plays in."""
        return str(self._inner.world)

    @property
    def headings(self) -> Headings:
        """What tables say of it."""
        headings: Headings = self._inner.headings
        return headings

    def load(self, seed: int) -> Any:
        """The work of that seed."""
        with told_as_its_own(f"scenario {self.reference}"):
            return self._inner.load(seed)

    def start(self, work: Any, seed: int) -> Simulation[Any, Any]:
        """A run over the work."""
        with told_as_its_own(f"scenario {self.reference}"):
            started: Simulation[Any, Any] = self._inner.start(work, seed)
            return started

    def of_part(self, part: Part) -> OwnScenario:
        """The same on another part of the data."""
        return OwnScenario(self.reference, part)

    def caution(self, seeds: Sequence[int]) -> str:
        """Why these seeds are no sample, where it says so."""
        return str(self._inner.caution(seeds)) if hasattr(self._inner, "caution") else ""

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """What a learner has to beat."""
        yardstick: tuple[str, tuple[str, ...]] = self._inner.yardstick()
        return yardstick

    def to_json(self) -> dict[str, Any]:
        """By reference; a file by its whole path."""
        place, _, attribute = self.reference.rpartition(":")
        where = str(Path(place).resolve()) if place.endswith(".py") else place
        return {"name": self.name, "kind": _KIND, "reference": f"{where}:{attribute}"}


@lru_cache(maxsize=16)
def _made(reference: str, part: Part) -> Any:
    attribute = attribute_of(reference, "scenario")
    with told_as_its_own(f"scenario {reference}"):
        made = attribute() if isinstance(attribute, type) or not hasattr(attribute, "load") else attribute
    for name in _NEEDED:
        if not hasattr(made, name):
            raise UsageError(f"scenario {reference!r}: {type(made).__name__} has no {name!r}")
    if part == "test":
        return made
    if not hasattr(made, "of_part"):
        raise UsageError(f"scenario {reference!r}: training needs a method `of_part`")
    with told_as_its_own(f"scenario {reference}"):
        return made.of_part(part)


def meant(scenario: object) -> object:
    """What a reference leads to; any other scenario as it is."""
    return scenario._inner if isinstance(scenario, OwnScenario) else scenario


def playing(
    kind: type, play: Play, others: Play = step_by_step, shown: Callable[[Any], Any] | None = None
) -> Play:
    """A world's fast way for one kind of scenario; what a stranger starts is played step by step.

    `shown`: the part of the work that its pictures show, where that is not all of it.
    """

    def chosen(
        scenario: Any,
        work: Any,
        policy: AnyPolicy,
        seed: int,
        *,
        hear: Hear | None = None,
        picture: bool = False,
    ) -> Played:
        inner = meant(scenario)
        if isinstance(inner, kind):
            return play(inner, work, policy, seed, hear=hear, picture=picture)
        if not picture or shown is None:
            return others(scenario, work, policy, seed, hear=hear, picture=picture)
        seen = others(scenario, shown(work), policy, seed, picture=True)
        return replace(others(scenario, work, policy, seed, hear=hear), picture=seen.picture)

    return chosen


def scenario_named(world: World, flags: ScenarioFlags, name: str | None) -> Scenario:
    """The scenario that the flags describe, one of one's own included; `name` in place of --scenario."""
    given = str(name or getattr(flags, "scenario", ""))
    if given.endswith(".py"):
        raise UsageError(f"scenario {given!r}: say which name of the file: {given}:NAME")
    if not given.endswith(".json") and ":" not in given:
        scenario: Scenario = flags.chosen(name)
        return scenario
    changed = [
        field
        for field, usual in vars(world.flags()).items()
        if field not in ("scenario", "data") and getattr(flags, field) != usual
    ]
    if changed:
        flag = changed[0].replace("_", "-")
        raise UsageError(f"--{flag} says nothing about a scenario of your own: set it in {given}")
    if given.endswith(".json"):
        own = scenario_in_json(world, read_object(Path(given)), flags.data, Path(given))
    else:
        own = OwnScenario(given)
    if own.world != world.name:
        raise UsageError(f"scenario {given!r} is one of the world {own.world!r}, not of {world.name!r}")
    return own


def read_back(world: World, entry: Any, data: Path | None) -> Scenario:
    """A scenario as `to_json` describes it; a ValueError where the entry describes none."""
    if not isinstance(entry, dict):
        raise ValueError("not a scenario")
    if entry.get("kind") == _KIND:
        return OwnScenario(str(entry.get("reference")))
    return world.scenario(entry, data)


def scenario_in_json(world: World, entry: dict[str, Any], data: Path | None, file: Path) -> Scenario:
    """A scenario as `to_json` describes it; an InputError names the file."""
    try:
        return read_back(world, entry, data)
    except ValueError as error:
        raise InputError(str(error), file=file) from error
