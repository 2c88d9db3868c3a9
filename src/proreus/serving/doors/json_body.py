"""JSON bodies as values; what is wrong with one is said by field, in one line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn, TypeVar

import msgspec

from proreus.serving.values import invalid

Value = TypeVar("Value")


def decode(decoder: msgspec.json.Decoder[Value], body: bytes) -> Value:
    """A JSON body as a value; the refusal names the field."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        _refuse_value(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse_text(body, str(error))


def _refuse_value(message: str) -> NoReturn:
    """msgspec's complaint with the field in front: `state[2]: expected float, got str`."""
    message, _, path = message.replace("`", "").partition(" - at ")
    path = path.removeprefix("$").removeprefix(".")
    for lead, says in (
        ("Object missing required field ", "is missing"),
        ("Object contains unknown field ", "is not a field of this request"),
    ):
        if message.startswith(lead):
            name = message.removeprefix(lead)
            raise invalid(f"{path}.{name}" if path else name, says)
    raise invalid(path or "body", message[:1].lower() + message[1:])


def _refuse_text(body: bytes, problem: str) -> NoReturn:
    """Not JSON. Where it is because of NaN or Infinity, which some programs write, say in which field."""
    try:
        place = _not_finite(json.loads(body))
    except (ValueError, RecursionError):
        place = None
    if place is not None:
        raise invalid(place or "body", "is not a finite number; JSON has no NaN and no Infinity")
    raise invalid("body", f"is not JSON: {problem}")


def _not_finite(value: Any, path: str = "") -> str | None:
    """Where the first NaN or infinity stands; None where there is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return path
    children: Iterator[tuple[str, Any]] = iter(())
    if isinstance(value, dict):
        children = ((f"{path}.{key}" if path else key, item) for key, item in value.items())
    elif isinstance(value, list):
        children = ((f"{path}[{index}]", item) for index, item in enumerate(value))
    return next((found for at, item in children if (found := _not_finite(item, at)) is not None), None)
