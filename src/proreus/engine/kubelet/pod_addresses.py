"""Addresses of simulated nodes and their pods: every pool of nodes has a range of its own, and keeps it.

Which pool has which is in the ConfigMap kube-system/proreus-addresses, a line each: `rack-: 3+10` are the ten
numbers from 3 on. Processes that come at the same time see each other there.
"""

from __future__ import annotations

from collections.abc import Mapping

from proreus.engine.objects.kinds import CONFIG_MAP
from proreus.engine.objects.metadata import Object
from proreus.engine.objects.registry import Registry
from proreus.model.errors import WorkError

NAMESPACE, NAME = "kube-system", "proreus-addresses"
_IN_ONE = 250
"""Nodes of one number in the second place of an address."""
MOST_NUMBERS = 250 * _IN_ONE


def node_address(number: int) -> str:
    """Of the node with that number."""
    high, low = divmod(number, _IN_ONE)
    return f"10.0.{high}.{low + 1}"


def pod_network(number: int) -> str:
    """The first three places of the addresses of its pods."""
    high, low = divmod(number, _IN_ONE)
    return f"10.{high + 1}.{low}"


def allotted(ranges: Mapping[str, str], pool: str, count: int) -> tuple[dict[str, str], int]:
    """The ranges with one for the pool, and its first number.

    A pool that has grown beyond its range gets another behind all others: no number is ever given again.
    """
    read = {name: _read(text) for name, text in ranges.items()}
    if pool in read and read[pool][1] >= count:
        return dict(ranges), read[pool][0]
    first = max((begin + size for begin, size in read.values()), default=0)
    if first + count > MOST_NUMBERS:
        raise WorkError(f"no addresses are left for {count} nodes: delete the ConfigMap {NAMESPACE}/{NAME}")
    return {**ranges, pool: f"{first}+{count}"}, first


def _read(text: str) -> tuple[int, int]:
    """First number and count; what cannot be meant takes no room."""
    first, _, count = text.partition("+")
    return (int(first), int(count)) if first.isdecimal() and count.isdecimal() else (0, 0)


async def allot(registry: Registry, pool: str, count: int) -> int:
    """The first number of the pool, from now on its own."""

    def change(standing: Object) -> Object:
        ranges, _ = allotted(standing.get("data") or {}, pool, count)
        return {**standing, "data": ranges}

    named = {"metadata": {"name": NAME, "namespace": NAMESPACE}}
    config_map = await registry.create_or_edit(CONFIG_MAP, named, change)
    return _read(config_map["data"][pool])[0]
