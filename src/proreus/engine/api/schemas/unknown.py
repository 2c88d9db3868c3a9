"""Fields that no schema knows, for clients that ask to be told (`fieldValidation`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from proreus.engine.api.schemas.reading import PLAIN, Model, models

MOST = 16
"""So many are told of; one typing error is enough to look at it again."""


def unknown_fields(obj: dict[str, Any], model: Model) -> list[str]:
    """Their paths, in the order of the object."""
    return list(islice(_unknown(obj, model, ""), MOST))


def _unknown(obj: dict[str, Any], model: Model, path: str) -> Iterator[str]:
    for name, value in obj.items():
        field = model.fields.get(name)
        here = f"{path}.{name}" if path else name
        if field is None:
            yield here
        elif field.type not in PLAIN:
            inner = models()[field.type]
            if field.listed and isinstance(value, list):
                for index, item in enumerate(value):
                    if isinstance(item, dict):
                        yield from _unknown(item, inner, f"{here}[{index}]")
            elif not field.listed and isinstance(value, dict):
                yield from _unknown(value, inner, here)
