"""Conditions in a status: found, and set without moving a transition that did not happen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from proreus.engine.objects.timestamps import parse_timestamp, timestamp

_UNSTATED = {"status": "", "reason": "", "message": ""}
"""Whoever may write a status may leave these out. Times, too; but one that nobody stated is no moment."""


class Condition(msgspec.Struct, frozen=True, gc=False):
    """What is to hold of an object."""

    type: str
    status: str
    reason: str = ""
    message: str = ""


def find_condition(obj: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of that type in an object's status."""
    return find_among((obj.get("status") or {}).get("conditions") or (), kind)


def find_among(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    """The condition of that type; where it says nothing, words are empty and times are not there."""
    for condition in conditions:
        if condition.get("type") == kind:
            return {**_UNSTATED, **{name: value for name, value in condition.items() if value is not None}}
    return None


def moment_of(condition: Mapping[str, Any], field: str = "lastTransitionTime") -> float | None:
    """When that was; None: it does not say."""
    stated = condition.get(field)
    return parse_timestamp(stated) if stated else None


def holds(obj: Mapping[str, Any], kind: str) -> bool:
    """Whether the condition of that type is True."""
    condition = find_condition(obj, kind)
    return condition is not None and condition.get("status") == "True"


def written(condition: Condition, before: Mapping[str, Any] | None, now: float) -> dict[str, Any]:
    """As it stands in a status; the transition's time stays where the status did."""
    same = before is not None and before.get("status") == condition.status
    moment = before.get("lastTransitionTime") if before is not None and same else None
    written_condition: dict[str, Any] = {"type": condition.type, "status": condition.status}
    written_condition["lastTransitionTime"] = moment or timestamp(now)
    if condition.reason:
        written_condition["reason"] = condition.reason
    if condition.message:
        written_condition["message"] = condition.message
    return written_condition


def with_conditions(
    standing: Iterable[Mapping[str, Any]], wanted: Iterable[Condition], now: float
) -> list[dict[str, Any]]:
    """Those that stand, with the wanted ones in their places or behind."""
    by_type = {condition.get("type", ""): dict(condition) for condition in standing}
    for condition in wanted:
        by_type[condition.type] = written(condition, by_type.get(condition.type), now)
    return list(by_type.values())
