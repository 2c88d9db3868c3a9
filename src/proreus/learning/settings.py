"""Settings of learners: what they are called, what they were called before, and back from a run's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from proreus.model.errors import UsageError

Config = TypeVar("Config")

FORMER_NAMES: Mapping[str, str] = {
    "longest_slope": "max_gradient",
    "largest_gradient": "max_gradient",
    "trace": "gae_lambda",
}
"""Settings by the names that they had; flags and the settings of older runs may still say them."""


def at_least_one(config: object, *names: str) -> None:
    """Refuse settings that count something and count nothing."""
    for name in names:
        if getattr(config, name) < 1:
            raise UsageError(f"{name}: {getattr(config, name)} is not at least 1")


def not_negative(config: object, *names: str) -> None:
    """Refuse settings that are below nothing."""
    for name in names:
        if getattr(config, name) < 0:
            raise UsageError(f"{name}: {getattr(config, name)} is negative")


def current_names(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings under the names that they have now."""
    return {FORMER_NAMES.get(name, name): value for name, value in stored.items()}


def config_from(stored: Mapping[str, Any], given: Config) -> Config:
    """A config of the same kind with the stored settings; those of others may be among them."""
    names = {item.name for item in fields(given)}  # type: ignore[arg-type]  # a dataclass of a learner
    # Settings that came later: an older run goes on as it would have then.
    before: Mapping[str, Any] = getattr(type(given), "BEFORE", {})
    # JSON knows no tuples.
    return type(given)(
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in (dict(before) | current_names(stored)).items()
            if name in names
        }
    )
