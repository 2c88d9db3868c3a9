"""What a controller decides: how many instances more or fewer there are to be in each pool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from proreus.kernels.arrays import I64
from proreus.worlds.inference.model.cluster import ROLES, Role


@dataclass(frozen=True)
class Scale:
    """Changes of pools: instances to start (positive) or to drain (negative)."""

    prompt: int = 0
    token: int = 0
    mixed: int = 0
    migrate: int = 0
    """Active instances that go from the prompt pool to the token pool; negative: the other way."""

    def of(self, role: Role) -> int:
        """Starts, or drains, of one pool."""
        match role:
            case "prompt":
                return self.prompt
            case "token":
                return self.token
            case "mixed":
                return self.mixed

    def moved_into(self, role: Role) -> int:
        """Instances that migration brings to a pool, or takes from it."""
        match role:
            case "prompt":
                return -self.migrate
            case "token":
                return self.migrate
            case "mixed":
                return 0


NOTHING = Scale()


@dataclass(frozen=True)
class ScaleSteps:
    """The flat actions of a controller: every change within these bounds has a number."""

    roles: tuple[Role, ...] = ("prompt", "token")
    scale: int = 5
    """Most instances of a pool that one decision starts or drains."""
    migrate: int = 3
    """Most that one decision migrates; only where there are two pools."""

    @property
    def _radix(self) -> tuple[int, ...]:
        moves = 2 * self.migrate + 1 if len(self.roles) > 1 else 1
        return (*(2 * self.scale + 1 for _ in self.roles), moves)

    def __len__(self) -> int:
        count = 1
        for size in self._radix:
            count *= size
        return count

    def table(self) -> I64:
        """[K, roles + 1] the changes of all numbers: of each pool, and migrations."""
        return _table(self._radix)

    def action(self, number: int) -> Scale:
        """The change of that number."""
        *changes, migrate = self.table()[number].tolist()
        return Scale(**dict(zip(self.roles, changes, strict=True)), migrate=migrate)

    def number(self, change: Scale) -> int:
        """Back from `action`; a ValueError where the change is beyond the bounds."""
        digits = (*(change.of(role) for role in self.roles), change.migrate)
        others = any(change.of(role) != 0 for role in ROLES if role not in self.roles)
        number = 0
        for digit, size in zip(digits, self._radix, strict=True):
            if not isinstance(digit, int) or abs(digit) > size // 2 or others:
                raise ValueError(f"{change} is beyond the steps of a decision")
            number = number * size + digit + size // 2
        return number


@lru_cache(maxsize=16)
def _table(radix: tuple[int, ...]) -> I64:
    digits = np.stack(np.meshgrid(*(np.arange(size) - size // 2 for size in radix), indexing="ij"), axis=-1)
    return digits.reshape(-1, len(radix)).astype(np.int64)
