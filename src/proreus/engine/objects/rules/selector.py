"""What holds of a LabelSelector inside an object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from proreus.engine.objects.names import label_key_problem
from proreus.engine.objects.rules.metadata import check_labels
from proreus.engine.objects.rules.problems import Problems

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


def check_selector(selector: Mapping[str, Any], field: str, problems: Problems) -> None:
    """Keys, operators, and values where there must be some."""
    check_labels(selector.get("matchLabels", {}), f"{field}.matchLabels", problems)
    for place, one in enumerate(selector.get("matchExpressions", ())):
        here = f"{field}.matchExpressions[{place}]"
        operator, values = one.get("operator", ""), one.get("values", ())
        if operator not in _OPERATORS:
            problems.invalid(f"{here}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            problems.required(f"{here}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist") and values:
            problems.forbidden(
                f"{here}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            )
        problems.unless(f"{here}.key", one.get("key", ""), label_key_problem(one.get("key", "")))
