"""What the laws are tried on: small scenarios of every registered world, and their policies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.api import make_scenario
from proreus.contract.play import AnyPolicy
from proreus.contract.scenario import Scenario
from proreus.contract.simulation import Outcome
from proreus.contract.world import World
from proreus.model.decision import Place, Preempt
from proreus.worlds import WORLDS, register, registered, world
from proreus.worlds.functions.model import Keep
from proreus.worlds.functions.model import StartInstance as PlaceInstance
from proreus.worlds.inference.model.decision import Scale
from proreus.worlds.rebalance.decision import Migrate
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from tests.toy import TOY

BY_THE_CLOCK = {"decisions_per_s", "windows_per_s", "plan_seconds"}
"""Measures of the computer, which differ from run to run."""
RULES_IN_TIME = {"exact": "exact@20"}
"""Rules that are given a limit; here they are done long before, so that it decides nothing."""
GARBAGE: tuple[Any, ...] = (None, "x", -1, 1.5, float("nan"), [], {"node": 0})
"""No decision in any world."""
_NUMBERS: tuple[Any, ...] = ("x", None, 0.5, -1, 10**30)
NO_DECISIONS: dict[str, tuple[Any, ...]] = {
    "pods": (*map(Place, _NUMBERS), *map(Preempt, _NUMBERS), *(Place(0, mask) for mask in _NUMBERS)),
    "rebalance": (*(Migrate(pod, 0) for pod in _NUMBERS), *(Migrate(0, target) for target in _NUMBERS)),
    "functions": (
        *map(PlaceInstance, _NUMBERS),
        *map(Keep, (*_NUMBERS[:2], -1.0, float("nan"), float("inf"))),
    ),
    "inference": (
        *(Scale(token=token) for token in _NUMBERS if token != -1),
        Scale(mixed=99),
        Scale(migrate=99),
    ),
}
"""The shape of a decision, and none."""


@dataclass(frozen=True)
class Case:
    """A small scenario of a world."""

    scenario: Scenario

    @property
    def world(self) -> World:
        """Its world."""
        return world(self.scenario.world)

    @property
    def rules(self) -> tuple[str, ...]:
        """All policies that ship with it."""
        return tuple(RULES_IN_TIME.get(name, name) for name in self.world.policies(self.scenario).names)

    @property
    def main(self) -> str:
        """The default policy."""
        return self.world.policies(self.scenario).main[0]

    def make(self, name: str, seed: int = 0) -> AnyPolicy:
        """The policy of that name."""
        return self.world.policies(self.scenario).make(name, None, seed)

    def play(self, policy: AnyPolicy, seed: int = 0) -> Outcome:
        """As `simulate` does."""
        return self.world.play(self.scenario, work_of(self, seed), policy, seed).outcome

    def file(self, folder: Path) -> str:
        """For --scenario: the scenario as its world writes it down."""
        path = folder / f"{self.scenario.name.replace('/', '-')}.json"
        path.write_text(json.dumps(self.scenario.to_json()))
        return str(path)

    def __str__(self) -> str:
        return f"{self.scenario.world}/{self.scenario.name.rpartition('/')[2]}"


def _windows(name: str) -> Scenario:
    config = WindowsConfig(nodes=4, pods=10, windows=60)
    return replace(make_scenario("rebalance", name), config=config)  # type: ignore[type-var]


SCALED: dict[str, Callable[[], tuple[Scenario, ...]]] = {
    "pods": lambda: (make_scenario("pods", "small@5"), make_scenario("pods", "gpu@6")),
    "vms": lambda: tuple(
        make_scenario("vms", name, starts=2, limit=limit)
        for name, limit in (("recovering@2", 300), ("waiting@1", 100), ("rejecting@1", 100))
    ),
    "rebalance": lambda: (
        _windows("windows/serial"),
        _windows("windows/parallel"),
        make_scenario("rebalance", "snapshot@6", budget=3),
    ),
    "functions": lambda: tuple(
        make_scenario("functions", f"{name}@{seconds}", functions=8)
        for name, seconds in (("busy", 40), ("calm", 60), ("rush", 20))
    ),
    "inference": lambda: tuple(
        make_scenario("inference", name, seconds=300.0, rate=6.0, interval=20.0)
        for name in ("surge", "colocated", "spot")
    ),
}
"""Where presets are too large for a test of every rule; other worlds are tried on all of theirs."""


def _cases() -> Iterator[Case]:
    for name in registered():
        scenarios = (
            SCALED[name]()
            if name in SCALED
            else [make_scenario(name, preset) for preset in world(name).presets]
        )
        yield from (Case(scenario) for scenario in scenarios)


# Known while tests are collected; the fixture of `conftest` makes it known again while one runs.
register("toy", TOY)
CASES = tuple(_cases())
RULES = tuple((case, name) for case in CASES for name in case.rules)
KINDS = {(case.scenario.world, case.world.policies(case.scenario).what): case for case in reversed(CASES)}
"""The first scenario of each kind."""
SHIPPED = tuple(case for case in CASES if case.world.policies(case.scenario).shipped is not None)
"""Those with a checkpoint of the package's own."""
del WORLDS["toy"]

every_case = pytest.mark.parametrize("case", CASES, ids=str)
every_kind = pytest.mark.parametrize("case", KINDS.values(), ids=str)
every_rule = pytest.mark.parametrize(("case", "name"), RULES, ids=lambda value: str(value))


@lru_cache(maxsize=32)
def work_of(case: Case, seed: int = 0) -> Any:
    """The work of a seed, loaded once: runs leave it as it is."""
    return case.scenario.load(seed)


@cache
def once(case: Case, name: str, seed: int = 0) -> Outcome:
    """A run of the policy of that name, played once: the same seed gives the same run, or a law is broken."""
    return case.play(case.make(name, seed), seed)


class Hidden:
    """A policy of which nothing is known but its decisions."""

    def __init__(self, policy: AnyPolicy) -> None:
        self.name, self._policy = policy.name, policy

    def decide(self, observation: Any, /) -> Any:
        """The policy's."""
        return self._policy.decide(observation)

    def fresh(self, seed: int) -> Hidden:
        """The policy's."""
        return Hidden(self._policy.fresh(seed))


def told(outcome: Outcome) -> str:
    """All that a run came to, whatever the clock says, to be compared."""
    measures = {name: float(value) for name, value in sorted(outcome.measures.items())}
    rows = [[_plain(cell) for cell in row] for row in outcome.rows]
    kept = {name: value for name, value in measures.items() if name not in BY_THE_CLOCK}
    return repr((kept, outcome.columns, rows))


def _plain(cell: object) -> object:
    return float(cell) if isinstance(cell, int | float | np.number) else str(cell)


def digest(work: Any) -> str:
    """Of everything that the work of a seed holds."""
    seen = hashlib.sha256()
    for part in _content(work):
        seen.update(part)
    return seen.hexdigest()


def _content(value: Any) -> Iterator[bytes]:
    if isinstance(value, np.ndarray):
        yield value.tobytes()
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _content(getattr(value, field.name))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _content(item)
    elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(value):
        for item in vars(value).values():
            yield from _content(item)
    else:
        yield repr(value).encode()
