"""What is wrong with an object, collected field by field in Kubernetes' words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from proreus.engine.objects.errors import Cause


class Problems:
    """The causes of a refusal, as they are found."""

    __slots__ = ("causes",)

    def __init__(self) -> None:
        self.causes: list[Cause] = []

    def invalid(self, field: str, value: Any, why: str) -> None:
        """The value may not be so."""
        self.causes.append(Cause(field, f"Invalid value: {_shown(value)}: {why}", "FieldValueInvalid"))

    def required(self, field: str, why: str = "") -> None:
        """There must be one."""
        self.causes.append(
            Cause(field, f"Required value: {why}" if why else "Required value", "FieldValueRequired")
        )

    def forbidden(self, field: str, why: str) -> None:
        """It may not be set, or not be changed."""
        self.causes.append(Cause(field, f"Forbidden: {why}", "FieldValueForbidden"))

    def duplicate(self, field: str, value: Any) -> None:
        """There is one of that already."""
        self.causes.append(Cause(field, f"Duplicate value: {_shown(value)}", "FieldValueDuplicate"))

    def not_found(self, field: str, value: Any) -> None:
        """It names something that is not there."""
        self.causes.append(Cause(field, f"Not found: {_shown(value)}", "FieldValueNotFound"))

    def too_long(self, field: str, why: str) -> None:
        """It is more than fits."""
        self.causes.append(Cause(field, f"Too long: {why}", "FieldValueTooLong"))

    def one_of(self, field: str, value: Any, supported: Iterable[str]) -> None:
        """A problem unless the value is one of these."""
        known = list(supported)
        if value not in known:
            listed = ", ".join(f'"{word}"' for word in known)
            message = f"Unsupported value: {_shown(value)}: supported values: {listed}"
            self.causes.append(Cause(field, message, "FieldValueNotSupported"))

    def at_least(self, field: str, value: int, minimum: int = 0) -> None:
        """A problem unless the number is that large."""
        if value < minimum:
            self.invalid(field, value, f"must be greater than or equal to {minimum}")

    def unless(self, field: str, value: Any, why: str) -> None:
        """A problem where a rule has something to say."""
        if why:
            self.invalid(field, value, why)


_LONGEST_SHOWN = 256


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "..."
