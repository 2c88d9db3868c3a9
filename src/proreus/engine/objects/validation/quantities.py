"""Amounts of resources: whether they are quantities, and which is larger."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from proreus.engine.objects.names import label_key_problem
from proreus.engine.objects.validation.error_list import Problems
from proreus.model.resources import parse_quantity

_MILLI = 1000
_PLAIN = frozenset({"cpu", "memory", "ephemeral-storage", "storage", "pods"})
_NO_QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@lru_cache(maxsize=4096)
def thousandths(amount: str | int | float) -> int | None:
    """The amount in thousandths, rounded up; None where it is no quantity, or a negative one."""
    try:
        return parse_quantity(amount, scale=_MILLI)
    except ValueError:
        return None


def check_amounts(amounts: Mapping[str, Any], field: str, problems: Problems) -> None:
    """A map of resources to quantities."""
    for name, amount in amounts.items():
        value = thousandths(amount)
        if value is None:
            problems.invalid(f"{field}.{name}", amount, _NO_QUANTITY)
            continue
        if name in _PLAIN:
            continue
        if "/" not in name and not name.startswith("hugepages-"):
            problems.invalid(f"{field}.{name}", name, "must be a standard resource type or fully qualified")
        else:
            problems.unless(f"{field}.{name}", name, label_key_problem(name))
            if value % _MILLI:
                problems.invalid(f"{field}.{name}", amount, "must be an integer")


def check_requirements(resources: Mapping[str, Any], field: str, problems: Problems) -> None:
    """Requests and limits of a container: quantities, and no request beyond its limit."""
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    if limits:
        check_amounts(limits, f"{field}.limits", problems)
    if requests:
        check_amounts(requests, f"{field}.requests", problems)
    for name, asked in requests.items():
        if name not in limits:
            continue
        least, most = thousandths(asked), thousandths(limits[name])
        if least is not None and most is not None and least > most:
            problems.invalid(
                f"{field}.requests",
                str(asked),
                f"must be less than or equal to {name} limit of {limits[name]}",
            )
