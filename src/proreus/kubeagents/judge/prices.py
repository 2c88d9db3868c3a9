"""What nodes cost an hour, by the prices that the world `pods` measures costs with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from proreus.engine.scheduler.pod_templates import TemplateReader
from proreus.model.node import Node
from proreus.worlds.pods.simulation.outcome import hourly_price


def price_of(node: Node) -> float:
    """Dollars an hour of one node."""
    return float(hourly_price(node.allocatable.cpu, node.allocatable.memory, node.gpu_count))


def hourly(nodes: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Dollars an hour by name, of Node objects."""
    reader = TemplateReader()
    return {node.name: price_of(node) for node in map(reader.node, nodes)}
