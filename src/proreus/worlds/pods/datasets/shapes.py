"""What machines and pods look like: the menus the generator draws from, with their shares.

`generator` calls this. The menus are round numbers: servers as clouds sell them, GPU machines and GPU pod
sizes rounded from what is common in the openb cluster. The shares are chosen so that the totals meet its
published figures (48 % of pods take one GPU, 38 % a part of one, 13.4 % none and 0.9 % several; at a GPU
demand of 98 % of the capacity, CPU demand is 80 % and memory demand 60 %).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from proreus.model.pod import GpuRequest
from proreus.model.resources import GIB, MIB, Resources


@dataclass(frozen=True)
class NodeShape:
    """A kind of machine and its share among the nodes."""

    share: float
    allocatable: Resources
    gpus: int = 0
    model: str = ""


@dataclass(frozen=True)
class PodShape:
    """A size of pod and its share among the pods."""

    share: float
    cpu: int
    """Thousandths of a core."""
    memory: int
    """Bytes."""
    gpu: GpuRequest = field(default_factory=GpuRequest)

    def requests(self, *, network: int = 0, disk: int = 0) -> Resources:
        """What a pod of this size asks for, with so much bandwidth on top."""
        return Resources(cpu=self.cpu, memory=self.memory, network=network, disk=disk)


def _server(share: float, cores: int, memory_gib: int) -> NodeShape:
    """A cloud machine: general-purpose types sustain about 300 Mbit/s and 36 MB/s of disk per core."""
    return NodeShape(
        share,
        Resources(
            cpu=cores * 1000,
            memory=memory_gib * GIB,
            ephemeral=100 * GIB,
            pods=110,
            network=300 * cores,
            disk=36 * cores,
        ),
    )


def _gpu_server(share: float, gpus: int, model: str, cores: int, memory_gib: int) -> NodeShape:
    allocatable = Resources(cpu=cores * 1000, memory=memory_gib * GIB, pods=1_000_000)
    return NodeShape(share, allocatable, gpus, model)


def _gpu_pod(share: float, cpu: int, memory_gib: int, milli: int, count: int = 1) -> PodShape:
    gpu = GpuRequest(count, milli) if milli else GpuRequest()
    return PodShape(share, cpu, memory_gib * GIB, gpu)


MIXED_SERVERS = (_server(0.5, 8, 32), _server(0.35, 16, 64), _server(0.15, 8, 64))
SMALL_SERVERS = (_server(0.7, 4, 16), _server(0.3, 8, 32))

ORDINARY_PODS = (
    PodShape(0.06, 100, 128 * MIB),
    PodShape(0.10, 250, 512 * MIB),
    PodShape(0.14, 500, 1 * GIB),
    PodShape(0.06, 500, 2 * GIB),
    PodShape(0.16, 1000, 2 * GIB),
    PodShape(0.08, 1000, 4 * GIB),
    PodShape(0.16, 2000, 4 * GIB),
    PodShape(0.08, 2000, 8 * GIB),
    PodShape(0.08, 3000, 6 * GIB),
    PodShape(0.08, 4000, 12 * GIB),
)

GPU_SERVERS = (
    _gpu_server(0.452, 8, "G2", 96, 384),
    _gpu_server(0.319, 2, "T4", 104, 512),
    _gpu_server(0.088, 2, "P100", 16, 120),
    _gpu_server(0.032, 8, "G3", 128, 768),
    _gpu_server(0.023, 4, "V100M16", 32, 128),
    _gpu_server(0.018, 2, "P100", 64, 256),
    _gpu_server(0.017, 8, "V100M32", 96, 768),
    _gpu_server(0.017, 1, "V100M16", 8, 32),
    _gpu_server(0.014, 4, "T4", 96, 384),
    _gpu_server(0.020, 4, "V100M32", 48, 368),
)

GPU_PODS = (
    # one whole GPU, 48 %
    _gpu_pod(0.150, 11_000, 47, 1000),
    _gpu_pod(0.080, 13_000, 52, 1000),
    _gpu_pod(0.070, 3_000, 6, 1000),
    _gpu_pod(0.060, 12_000, 22, 1000),
    _gpu_pod(0.050, 18_000, 64, 1000),
    _gpu_pod(0.040, 16_000, 64, 1000),
    _gpu_pod(0.030, 8_000, 30, 1000),
    # part of a GPU, 37.7 %
    _gpu_pod(0.135, 3_000, 6, 810),
    _gpu_pod(0.090, 10_000, 40, 470),
    _gpu_pod(0.050, 4_000, 22, 320),
    _gpu_pod(0.032, 12_000, 46, 650),
    _gpu_pod(0.030, 4_000, 20, 220),
    _gpu_pod(0.020, 4_000, 10, 570),
    _gpu_pod(0.020, 6_000, 12, 460),
    # no GPU, 13.4 %
    _gpu_pod(0.046, 12_000, 54, 0),
    _gpu_pod(0.036, 32_000, 48, 0),
    _gpu_pod(0.030, 16_000, 50, 0),
    _gpu_pod(0.022, 8_000, 30, 0),
    # several GPUs, 0.9 %
    _gpu_pod(0.0054, 78_000, 320, 1000, count=8),
    _gpu_pod(0.0018, 40_000, 160, 1000, count=4),
    _gpu_pod(0.0018, 16_000, 80, 1000, count=2),
)
