"""Links between the GPUs of one instance: what the sums take that tensor parallelism needs.

Every layer ends twice, after its attention and after its feed-forward part, with a sum over all GPUs (an
all-reduce) of what the tokens have become. A ring does it in 2(n - 1) hops, in each of which a GPU sends an
n-th of the bytes to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from proreus.kernels.arrays import F64
from proreus.worlds.inference.model.llm import LanguageModel

_SUMS_OF_LAYER = 2


@dataclass(frozen=True)
class Interconnect:
    """As far as all-reduces get out of it, which is less than a data sheet says."""

    name: str
    hop_seconds: float
    """Of every hop, however little is sent."""
    bandwidth: float
    """Bytes a second that a GPU sends to the others: through a switch all of it to any one of them."""
    wires: int = 1
    """Where there is no switch, so many wires make up the bandwidth, each to another GPU: of n GPUs n - 1."""

    def all_reduce(self, size: F64, gpus: int) -> F64:
        """Seconds of one sum over so many bytes."""
        hops = 2 * (gpus - 1)
        return hops * self.hop_seconds + hops / gpus * size / self.bandwidth_among(gpus)

    def bandwidth_among(self, gpus: int) -> float:
        """Bytes a second that each of so many GPUs sends to the others."""
        return self.bandwidth * min(gpus - 1, self.wires) / self.wires

    def of_iteration(self, model: LanguageModel, tokens: F64, gpus: int) -> F64:
        """Seconds of all sums of an iteration with so many tokens."""
        if gpus == 1:
            return 0.0 * tokens
        size = tokens * (model.hidden * model.number_size)
        return _SUMS_OF_LAYER * model.layers * self.all_reduce(size, gpus)


_OF_PCIE, _OF_NVLINK = 0.25, 0.8
"""Shares of a data sheet's bytes a second each way. PCIe: 16 of 64 GB/s is what a log of vLLM on two
RTX PRO 6000 shows, which have no direct way to each other. NVLink: assumed, not measured here."""


def _pcie(generation: int, gigabytes: float) -> Interconnect:
    return Interconnect(f"pcie{generation}", 10e-6, _OF_PCIE * gigabytes * 1e9)


def _nvlink(name: str, gigabytes: float, wires: int = 1) -> Interconnect:
    return Interconnect(name, 1.5e-6, _OF_NVLINK * gigabytes * 1e9, wires)


PCIE3, PCIE4, PCIE5 = _pcie(3, 16.0), _pcie(4, 32.0), _pcie(5, 64.0)
NVLINK2, NVLINK3 = _nvlink("nvlink2", 150.0), _nvlink("nvlink3", 300.0)
NVLINK4, NVLINK5 = _nvlink("nvlink4", 450.0), _nvlink("nvlink5", 900.0)
INFINITY_FABRIC = _nvlink("infinity-fabric", 448.0, wires=7)
