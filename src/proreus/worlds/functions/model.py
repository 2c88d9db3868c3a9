"""Nodes, functions, requests and decisions of the world `functions`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np

from proreus.kernels.arrays import F64, I32, I64
from proreus.model.errors import UsageError

KEEPS = (0.0, 5.0, 20.0, 60.0, 180.0, 600.0)
"""Seconds that an idle instance may be kept for, as numbered actions offer them."""
_KIND = re.compile(r"(?P<count>\d+)x(?P<cores>[\d.]+)/(?P<memory>[\d.]+)/(?P<price>[\d.]+)")
_MOST_NODES = 1_000
_NET_PER_CORE, _DISK = 32.0, 5_000
"""MB/s of a core (t4g: 0.51 Gb/s for two), IOPS of a node."""
MOST_REQUESTS = 5_000_000


@dataclass(frozen=True)
class NodeKind:
    """Nodes that are alike; all amounts are whole numbers, so that sums come out the same in any order."""

    count: int
    cpu: int
    """Milli-cores."""
    memory: int
    """MB."""
    net: int
    """kB/s."""
    disk: int
    """IOPS."""
    price: int
    """Millionths of a dollar an hour, paid while the node holds an instance."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            least = 0 if field.name == "price" else 1
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**40:
                raise UsageError(f"nodes: {field.name} {value!r} is not a whole number of at least {least}")
        if self.count > _MOST_NODES:
            raise UsageError(f"nodes: at most {_MOST_NODES:,}")

    @classmethod
    def of(cls, count: int, cores: float, memory_gb: float, price: float) -> NodeKind:
        """With the network and the disk that such machines usually have."""
        return cls(
            count,
            round(1_000 * cores),
            round(1_024 * memory_gb),
            round(1_000 * _NET_PER_CORE * cores),
            _DISK,
            round(1e6 * price),
        )

    @classmethod
    def parse(cls, text: str) -> tuple[NodeKind, ...]:
        """`4x2/8/0.086+2x8/32/0.344`: count x cores / GB / dollars an hour."""
        found = []
        for part in text.split("+"):
            match = _KIND.fullmatch(part.strip())
            if match is None:
                raise UsageError(f"nodes: {part!r} is not COUNTxCORES/GB/DOLLARS, as in 4x2/8/0.086")
            try:
                sizes = float(match["cores"]), float(match["memory"]), float(match["price"])
            except ValueError as error:
                raise UsageError(f"nodes: {part!r} has a number that is none") from error
            found.append(cls.of(int(match["count"]), *sizes))
        return tuple(found)


CLUSTER = (
    NodeKind.of(4, 2, 8, 0.086),
    NodeKind.of(4, 4, 16, 0.172),
    NodeKind.of(2, 8, 32, 0.344),
)
"""Ten nodes of the sizes and prices of Mampage et al. 2023."""


def nodes_like(count: int) -> tuple[NodeKind, ...]:
    """So many nodes in the proportions of that cluster, the small ones first."""
    sizes = [kind for kind in CLUSTER for _ in range(kind.count)]
    counts = dict.fromkeys(CLUSTER, 0)
    for number in range(count):
        counts[sizes[number % len(sizes)]] += 1
    return tuple(replace(kind, count=many) for kind, many in counts.items() if many)


@dataclass(frozen=True)
class Function:
    """What one instance asks for and what one request uses."""

    name: str
    cpu: int
    """Milli-cores that an instance reserves."""
    memory: int
    """MB that an instance reserves."""
    cpu_use: int
    """Milli-cores that a request uses while it runs; several may use more than was reserved."""
    net: int
    """kB/s of a running request."""
    disk: int
    """IOPS of a running request."""
    concurrency: int
    """Requests that an instance serves at a time."""
    standard: float
    """Seconds: the response time of a warm instance on an empty node, on average."""
    kind: int = 0
    """For observations that count requests by a few kinds of function."""

    def __post_init__(self) -> None:
        for name, least in (
            ("cpu", 1),
            ("memory", 1),
            ("cpu_use", 0),
            ("net", 0),
            ("disk", 0),
            ("concurrency", 1),
            ("kind", 0),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**40:
                raise UsageError(f"function {self.name}: {name} {value!r} is not a whole number from {least}")
        if not 0.0 < self.standard < np.inf:
            raise UsageError(f"function {self.name}: standard {self.standard!r} is not above 0")


@dataclass(frozen=True, eq=False)
class Demand:
    """Requests in order of arrival."""

    functions: tuple[Function, ...]
    arrival: F64
    """[R] seconds from 0."""
    function: I32
    """[R]"""
    seconds: F64
    """[R] that it runs on a warm instance without contention."""
    cold: F64
    """[R] that an instance takes to start, if one is started for this request."""
    horizon: float
    """Requests came for so long."""

    def __post_init__(self) -> None:
        sizes = {self.arrival.size, self.function.size, self.seconds.size, self.cold.size}
        if len(sizes) != 1 or not 0 < self.arrival.size <= MOST_REQUESTS:
            raise UsageError(f"a demand has 1 to {MOST_REQUESTS:,} requests, each with all its numbers")
        if not (np.diff(self.arrival) >= 0.0).all() or self.arrival[0] < 0.0:
            raise UsageError("requests come in order of arrival, from 0 s on")
        for name in ("seconds", "cold", "arrival"):
            column = getattr(self, name)
            if not (np.isfinite(column).all() and (column >= 0.0).all()):
                raise UsageError(f"{name}: a request has no such number, or it is negative")
        if self.function.min() < 0 or self.function.max() >= len(self.functions):
            raise UsageError("function: a request is of no function that is known")
        if not self.arrival[-1] <= self.horizon < np.inf:
            raise UsageError(f"horizon: {self.horizon} s end before the last request comes")

    def __len__(self) -> int:
        return int(self.arrival.size)


@dataclass(frozen=True)
class FunctionsTerms:
    """What holds for every run: the nodes, patience, and how a run is judged."""

    nodes: tuple[NodeKind, ...] = CLUSTER
    patience: float = 60.0
    """Seconds after which a request that waits for an instance is dropped."""
    queue: int = 100
    """Requests of one function that may wait; more are dropped."""
    beta: float = 0.7
    """What response time counts beside cost, 0 to 1."""
    rfrt_low: float = 0.1
    """The relative response time (RFRT) that counts 0, and ..."""
    rfrt_high: float = 5.0
    """... the one from which on it counts 1: the document's bounds."""
    slo: float = 2.0
    """The RFRT up to which a request meets its objective."""

    def __post_init__(self) -> None:
        if not self.nodes or self.count > _MOST_NODES:
            raise UsageError(f"nodes: from 1 to {_MOST_NODES:,}")
        if not 0.0 < self.patience < np.inf:
            raise UsageError(f"patience: {self.patience} s is not above 0")
        if not 0 <= self.queue < 2**31:
            raise UsageError(f"queue: {self.queue} is not at least 0")
        if not 0.0 <= self.beta <= 1.0:
            raise UsageError(f"beta: {self.beta} is not from 0 to 1")
        if not 0.0 <= self.rfrt_low < self.rfrt_high < np.inf:
            raise UsageError("rfrt_low is below rfrt_high")
        if not 0.0 < self.slo < np.inf:
            raise UsageError(f"slo: {self.slo} is not above 0")

    @property
    def count(self) -> int:
        """Of all nodes."""
        return sum(kind.count for kind in self.nodes)

    @property
    def price(self) -> int:
        """Of all nodes together, in millionths of a dollar an hour."""
        return sum(kind.count * kind.price for kind in self.nodes)

    def column(self, name: str) -> I64:
        """[N] of a field of the nodes' kinds."""
        values = [getattr(kind, name) for kind in self.nodes for _ in range(kind.count)]
        return np.array(values, dtype=np.int64)


@dataclass(frozen=True)
class StartInstance:
    """A new instance of the function at hand starts on that node."""

    node: int


@dataclass(frozen=True)
class WaitForInstance:
    """The request waits for an instance that is there, or for room."""


@dataclass(frozen=True)
class Keep:
    """The instance that has become idle stays for so long, unless a request comes before."""

    seconds: float


Decision: TypeAlias = StartInstance | WaitForInstance | Keep


def nodes_in_words(kinds: Sequence[NodeKind]) -> str:
    """For headings."""
    cores = sum(kind.count * kind.cpu for kind in kinds) / 1_000
    return f"{sum(kind.count for kind in kinds)} nodes, {cores:g} cores"
