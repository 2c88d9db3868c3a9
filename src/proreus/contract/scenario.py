"""What policies are compared and trained on, whatever the world: a small value that loads its work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from proreus.contract.simulation import Simulation
from proreus.model.errors import UsageError

Part = Literal["train", "valid", "test"]
PARTS: tuple[Part, ...] = ("train", "valid", "test")
_PLACE: dict[Part, int] = {"test": 0, "train": 1, "valid": 2}


SEEDS = 2**60
"""As many may be asked for. Those that are drawn with lie below 2**62: a generator may hold them as int64."""


def seed_of(part: Part, seed: int, apart: int) -> int:
    """The seed that a part draws generated work with: whatever seeds are asked for, parts never meet.

    The first `apart` seeds of a part are a stretch of their own: those of the test from 0 on, those of train
    and valid behind them. Beyond its stretch a part would come into those of the others; there it draws from
    far away, each part elsewhere. Only train goes on as it is behind all stretches: environments draw there.
    """
    if not 0 <= seed < SEEDS:
        raise UsageError(f"seed {seed} is not between 0 and {SEEDS - 1}")
    place = _PLACE[part]
    if seed < apart:
        return seed + apart * place
    if part == "train" and seed >= apart * len(PARTS):
        return seed
    return seed + SEEDS * (1 + place)


@dataclass(frozen=True)
class Headings:
    """What tables and reports say of a scenario."""

    deciding: tuple[str, ...]
    """Measures that rank the policies: the first that a run has."""
    telling: tuple[str, ...]
    """Measures worth a column of a narrow table."""
    remarks: tuple[str, ...] = ()
    """What holds for every run, in a few words each."""


class Scenario(Protocol):
    """Work of one world, by name. It travels to worker processes: small, frozen, and it can be pickled."""

    @property
    def name(self) -> str:
        """The name in tables and reports."""
        ...

    @property
    def world(self) -> str:
        """The name of the world it plays in."""
        ...

    @property
    def headings(self) -> Headings:
        """What tables and reports say of it."""
        ...

    def load(self, seed: int) -> Any:
        """The work of that seed, the same for every policy."""
        ...

    def start(self, work: Any, seed: int) -> Simulation[Any, Any]:
        """A run over the work, which stays as it is."""
        ...

    def of_part(self, part: Part) -> Scenario:
        """The same on another part of the data: train, valid and test never meet."""
        ...

    def caution(self, seeds: Sequence[int]) -> str:
        """Why these seeds are no sample; "": they are."""
        ...

    def yardstick(self) -> tuple[str, tuple[str, ...]]:
        """(measure, rules): what a learner has to beat is the best of these rules in that measure."""
        ...

    def to_json(self) -> dict[str, Any]:
        """As a run's settings keep it; `World.scenario` reads it back."""
        ...
