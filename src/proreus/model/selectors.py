"""Label selectors as Kubernetes defines them: requirements that are all to hold."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import assert_never

_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_INT64 = 2**63


class Operator(Enum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


@dataclass(frozen=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether `labels` meet this condition; a missing label meets NotIn, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                number, bound = _whole(value), _whole(self.values[0] if self.values else None)
                if number is None or bound is None:
                    return False
                return number > bound if self.operator is Operator.GT else number < bound
            case _:
                assert_never(self.operator)


def _whole(text: str | None) -> int | None:
    """A 64-bit whole number as Go reads one: no spaces, no underscores, no other digits."""
    if text is None or _WHOLE.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -_INT64 <= number < _INT64 else None


@dataclass(frozen=True)
class Selector:
    """All requirements must hold; no requirement at all selects everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether every requirement holds for `labels`."""
        return all(requirement.holds(labels) for requirement in self.requirements)


def match_labels(labels: Mapping[str, str]) -> Selector:
    """The selector that demands exactly these label values."""
    return Selector(tuple(Requirement(k, Operator.IN, (v,)) for k, v in sorted(labels.items())))
