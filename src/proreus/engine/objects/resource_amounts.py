"""Amounts of resources, as nodes have them and pods ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from proreus.model.resources import CPU, PODS, parse_quantity

Amounts = Mapping[str, int]
"""CPU in thousandths of a core, all else in its unit."""


@lru_cache(maxsize=4096)
def _amount(name: str, text: str) -> int:
    return parse_quantity(text, scale=1000 if name == CPU else 1)


def read_amounts(stated: Mapping[str, Any] | None) -> dict[str, int]:
    """Quantities by resource name."""
    return {name: _amount(name, str(text)) for name, text in (stated or {}).items()}


def requests_of(pod: Mapping[str, Any]) -> dict[str, int]:
    """What the pod takes of its node: containers and sidecars together, or its largest init container."""
    spec = pod["spec"]
    total: dict[str, int] = {}
    for container in spec["containers"]:
        _add(total, _requests(container))
    sidecars: dict[str, int] = {}
    largest: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _requests(container)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, asked)
            asked = sidecars
        else:
            asked = dict(asked)
            _add(asked, sidecars)
        for name, amount in asked.items():
            largest[name] = max(largest.get(name, 0), amount)
    _add(total, sidecars)
    for name, amount in largest.items():
        total[name] = max(total.get(name, 0), amount)
    _add(total, read_amounts(spec.get("overhead")))
    total[PODS] = 1
    return total


def total(many: Iterable[Amounts]) -> dict[str, int]:
    """All of them together."""
    together: dict[str, int] = {}
    for amounts in many:
        _add(together, amounts)
    return together


def _requests(container: Mapping[str, Any]) -> dict[str, int]:
    return read_amounts((container.get("resources") or {}).get("requests"))


def _add(total: dict[str, int], more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
