"""Small workloads to learn on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from numpy.typing import NDArray

from proreus.model.node import Node
from proreus.model.pod import Pod, PodSpec
from proreus.model.resources import GIB, Resources
from proreus.model.workload import Workload
from proreus.worlds.pods.datasets.generator import generate
from proreus.worlds.pods.state.compile import Compiled, compile_workload


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks are fastest on one thread, and tests run side by side; import it to have it."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def cpu_world(nodes: list[int], pods: list[int]) -> Compiled:
    """Nodes and pods by their CPU; pods arrive one a second and stay."""
    return compile_workload(
        Workload(
            "cpu",
            tuple(
                Node(f"node-{i}", Resources(cpu=cpu, memory=64 * GIB, pods=50)) for i, cpu in enumerate(nodes)
            ),
            tuple(
                Pod(f"pod-{i}", PodSpec(Resources(cpu=cpu, memory=GIB)), arrival=float(i))
                for i, cpu in enumerate(pods)
            ),
        )
    )


def small_world(nodes: int = 5, pods: int = 60) -> Compiled:
    """A generated world with departures, priorities, affinity and spread."""
    return compile_workload(generate("small", 3, nodes=nodes, pods=pods, apps=12))


def gpu_world(nodes: int = 4) -> Compiled:
    """A generated world of GPU pods that stay."""
    return compile_workload(generate("gpu", 3, nodes=nodes))


def bits(array: NDArray[Any]) -> bytes:
    """For comparisons that must hold to the last bit."""
    return array.tobytes()
