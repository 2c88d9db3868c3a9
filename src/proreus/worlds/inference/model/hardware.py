"""GPUs: memory, speed, power and price."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.model.errors import unknown_name

_GIB = 1024**3


@dataclass(frozen=True)
class Gpu:
    """One GPU as a data sheet has it; power and price are those that users may replace by their own."""

    name: str
    memory: int
    """Bytes."""
    bandwidth: float
    """Bytes a second between its memory and its cores."""
    flops: float
    """Dense 16-bit operations a second."""
    idle_watts: float
    prefill_watts: float
    decode_watts: float
    price: float
    """Dollars an hour."""


_KNOWN = (
    Gpu("a100-80gb", 80 * _GIB, 2.039e12, 312e12, 82.0, 385.0, 270.0, 2.21),
    Gpu("h100-80gb", 80 * _GIB, 3.352e12, 989e12, 105.0, 640.0, 420.0, 4.76),
    Gpu("h100-80gb-pcap", 80 * _GIB, 3.352e12, 989e12, 105.0, 450.0, 400.0, 4.76),
    Gpu("l40s", 48 * _GIB, 0.864e12, 362e12, 60.0, 320.0, 250.0, 1.10),
    Gpu("rtx-pro-6000", 96 * _GIB, 1.597e12, 500e12, 60.0, 560.0, 420.0, 1.90),
)
GPUS = {gpu.name: gpu for gpu in _KNOWN}


def gpu(name: str) -> Gpu:
    """The GPU of that name; a UsageError names the nearest one known."""
    if name not in GPUS:
        raise unknown_name("GPU", name, GPUS)
    return GPUS[name]
