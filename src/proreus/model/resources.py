"""Resource amounts, and the Kubernetes way of writing them ("500m", "1Gi", "2")."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation, Overflow
from types import MappingProxyType

MIB = 1024 * 1024
BYTES_PER_MB = 1_000_000
"""Rates of disks are stated in these, as their makers do."""
BYTES_PER_MBIT = 125_000
"""And those of networks in these."""
GIB = 1024 * MIB

# Names under which Kubernetes objects carry the resources that have a column of their own.
CPU = "cpu"
MEMORY = "memory"
EPHEMERAL = "ephemeral-storage"
PODS = "pods"
NETWORK = "proreus.io/network-mbps"
DISK = "proreus.io/disk-mbps"
GPU = "nvidia.com/gpu"

_SUFFIX = MappingProxyType(
    {
        "n": Decimal("1e-9"),
        "u": Decimal("1e-6"),
        "m": Decimal("1e-3"),
        "": Decimal(1),
        "k": Decimal(10**3),
        "M": Decimal(10**6),
        "G": Decimal(10**9),
        "T": Decimal(10**12),
        "P": Decimal(10**15),
        "E": Decimal(10**18),
        "Ki": Decimal(2**10),
        "Mi": Decimal(2**20),
        "Gi": Decimal(2**30),
        "Ti": Decimal(2**40),
        "Pi": Decimal(2**50),
        "Ei": Decimal(2**60),
    }
)
_QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$")
_LONGEST = 64
"""Characters of a quantity: more than anyone needs to write one down."""
_LARGEST = 2**62  # sums over a cluster must stay inside int64


def parse_quantity(text: object, *, scale: int = 1) -> int:
    """`text` times `scale`, rounded up as Kubernetes does; ValueError says what is wrong with it.

    >>> parse_quantity("250m", scale=1000), parse_quantity("1Gi"), parse_quantity(2, scale=1000)
    (250, 1073741824, 2000)
    """
    if isinstance(text, bool) or text is None:
        raise ValueError(f"{text!r} is not a quantity")
    written = str(text).strip()
    if len(written) > _LONGEST:
        raise ValueError(f"{written[:_LONGEST]!r}... is not a quantity: it has {len(written)} characters")
    match = _QUANTITY.match(written)
    if match is None or match[2] not in _SUFFIX:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 1Gi")
    try:
        amount = Decimal(match[1]) * _SUFFIX[match[2]] * scale
    except Overflow:
        raise ValueError(f"{text!r} is too large") from None
    except InvalidOperation:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 1Gi") from None
    if amount < 0:
        raise ValueError(f"{text!r} is negative")
    if not amount.is_finite() or amount > _LARGEST:
        raise ValueError(f"{text!r} is too large")
    return math.ceil(amount)


@dataclass(frozen=True)
class Resources:
    """An amount of everything a node has or a pod asks for, GPUs apart (they are devices, not a sum)."""

    cpu: int = 0
    """Thousandths of a core."""
    memory: int = 0
    """Bytes."""
    ephemeral: int = 0
    """Bytes of local scratch storage."""
    pods: int = 0
    """Pod slots: a node's limit; a pod takes one without saying so."""
    network: int = 0
    """Mbit/s."""
    disk: int = 0
    """MB/s."""
    extended: tuple[tuple[str, int], ...] = field(default=())
    """Any other named integer resource, sorted by name."""

    def __post_init__(self) -> None:
        amounts = (*self.base(), *(amount for _, amount in self.extended))
        if any(amount < 0 for amount in amounts):
            raise ValueError("a resource amount is negative")
        if list(self.extended) != sorted(self.extended):
            object.__setattr__(self, "extended", tuple(sorted(self.extended)))

    def base(self) -> tuple[int, int, int, int, int, int]:
        """The columns that every cluster has, in column order."""
        return (self.cpu, self.memory, self.ephemeral, self.pods, self.network, self.disk)


# Column order of `Resources.base()`; extended resources follow, sorted by name.
BASE_COLUMNS = (CPU, MEMORY, EPHEMERAL, PODS, NETWORK, DISK)
COL_CPU, COL_MEMORY, COL_EPHEMERAL, COL_PODS, COL_NETWORK, COL_DISK = range(6)
