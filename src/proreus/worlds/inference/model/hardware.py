"""GPUs: memory, speed, power and price."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.model.errors import unknown_name
from proreus.worlds.inference.model.interconnect import (
    INFINITY_FABRIC,
    NVLINK2,
    NVLINK3,
    NVLINK4,
    NVLINK5,
    PCIE3,
    PCIE4,
    PCIE5,
    Interconnect,
)

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
    link: Interconnect = PCIE4
    """To the others of its instance."""


def _card(name: str, memory: int, sheet: tuple[float, float, float], price: float, link: Interconnect) -> Gpu:
    """sheet: gigabytes a second of its memory, dense 16-bit tera-operations a second, watts at most.

    Power is a share of that: what cards of these classes take idle, while they compute and while they read.
    """
    bandwidth, flops, watts = sheet
    shares = 0.12 * watts, 0.9 * watts, 0.65 * watts
    return Gpu(name, memory * _GIB, bandwidth * 1e9, flops * 1e12, *shares, price, link)


_KNOWN = (
    Gpu("a100-80gb", 80 * _GIB, 2.039e12, 312e12, 82.0, 385.0, 270.0, 2.21, NVLINK3),
    Gpu("h100-80gb", 80 * _GIB, 3.352e12, 989e12, 105.0, 640.0, 420.0, 4.76, NVLINK4),
    Gpu("h100-80gb-pcap", 80 * _GIB, 3.352e12, 989e12, 105.0, 450.0, 400.0, 4.76, NVLINK4),
    Gpu("l40s", 48 * _GIB, 0.864e12, 362e12, 60.0, 320.0, 250.0, 1.10, PCIE4),
    Gpu("rtx-pro-6000", 96 * _GIB, 1.597e12, 500e12, 60.0, 560.0, 420.0, 1.90, PCIE5),
    _card("a10", 24, (600.0, 125.0, 150.0), 0.75, PCIE4),
    _card("a100-40gb", 40, (1_555.0, 312.0, 400.0), 1.60, NVLINK3),
    _card("a10g", 24, (600.0, 70.0, 300.0), 1.00, PCIE4),
    _card("a30", 24, (933.0, 165.0, 165.0), 0.90, PCIE4),
    _card("a40", 48, (696.0, 149.7, 300.0), 0.80, PCIE4),
    _card("a6000", 48, (768.0, 154.8, 300.0), 0.80, PCIE4),
    _card("b200", 180, (8_000.0, 2_250.0, 1_000.0), 6.50, NVLINK5),
    _card("h100-pcie", 80, (2_000.0, 756.0, 350.0), 2.50, PCIE5),
    _card("h20", 96, (4_000.0, 148.0, 400.0), 2.00, NVLINK4),
    _card("h200", 141, (4_800.0, 989.0, 700.0), 4.50, NVLINK4),
    _card("l4", 24, (300.0, 121.0, 72.0), 0.70, PCIE4),
    _card("l40", 48, (864.0, 181.0, 300.0), 1.00, PCIE4),
    _card("mi300x", 192, (5_300.0, 1_307.0, 750.0), 3.50, INFINITY_FABRIC),
    _card("rtx-3090", 24, (936.0, 71.0, 350.0), 0.30, PCIE4),
    _card("rtx-4090", 24, (1_008.0, 165.2, 450.0), 0.45, PCIE4),
    _card("rtx-5090", 32, (1_792.0, 209.5, 575.0), 0.70, PCIE5),
    _card("t4", 16, (320.0, 65.0, 70.0), 0.35, PCIE3),
    _card("v100-16gb", 16, (900.0, 125.0, 300.0), 0.60, NVLINK2),
    _card("v100-32gb", 32, (900.0, 125.0, 300.0), 0.75, NVLINK2),
)
GPUS = {gpu.name: gpu for gpu in _KNOWN}


def gpu(name: str) -> Gpu:
    """The GPU of that name; a UsageError names the nearest one known."""
    if name not in GPUS:
        raise unknown_name("GPU", name, GPUS)
    return GPUS[name]
