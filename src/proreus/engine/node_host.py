"""The nodes that this process runs: simulated ones, or the machine itself with a real runtime."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import assert_never

from proreus.engine.kubelet.heartbeats import Housed
from proreus.engine.kubelet.machine_runtime import MachineRuntime
from proreus.engine.kubelet.node_status import NodeSpec
from proreus.engine.kubelet.pod_addresses import allot, node_address, pod_network
from proreus.engine.kubelet.runtime_factory import open_runtime
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.clock import Timers
from proreus.engine.runtimes.config_refs import RegistryReferences
from proreus.engine.runtimes.options import MachineOptions
from proreus.engine.runtimes.protocol import Capacity
from proreus.engine.runtimes.simulated.draws import Habits
from proreus.engine.runtimes.simulated.runtime import SimulatedRuntime
from proreus.version import __version__

_INFO = {
    "containerRuntimeVersion": f"simulated://{__version__}",
    "kubeletVersion": f"v{__version__}",
    "kernelVersion": "simulated",
    "osImage": "simulated",
}


@dataclass(frozen=True)
class SimulatedNodes:
    """Nodes whose pods run for a drawn time and use drawn resources."""

    names: tuple[str, ...]
    amounts: Mapping[str, str]
    """What each has, by the names of Kubernetes."""
    seed: int = 0
    pool: str = "node-"
    """Nodes of one pool keep their addresses, and those of another have others."""


@dataclass(frozen=True)
class MachineNode:
    """This machine as a node: its pods are real."""

    name: str
    options: MachineOptions
    """Without `references`: those are the cluster's."""
    runtime: str = "auto"
    """One of `runtime_factory.NAMES`."""


@dataclass(frozen=True)
class OpenNodes:
    """Nodes with their runtimes."""

    housed: tuple[Housed, ...]
    machine: MachineRuntime | None = None
    """The real runtime among them."""


async def open_nodes(
    nodes: SimulatedNodes | MachineNode, registry: Registry, timers: Timers, stack: AsyncExitStack
) -> OpenNodes:
    """Their runtimes, until the stack is closed; raises `UsageError` where this machine cannot be a node."""
    match nodes:
        case SimulatedNodes():
            first = await allot(registry, nodes.pool, len(nodes.names)) if nodes.names else 0
            return OpenNodes(tuple(_simulated(nodes, timers, first)))
        case MachineNode(name, options, runtime):
            opened = await open_runtime(runtime, replace(options, references=RegistryReferences(registry)))
            stack.push_async_callback(opened.close)
            return OpenNodes((Housed(NodeSpec(name, options.address), opened, options.root),), opened)
        case _:
            assert_never(nodes)


def _simulated(nodes: SimulatedNodes, timers: Timers, first: int) -> list[Housed]:
    capacity = Capacity(dict(nodes.amounts), dict(nodes.amounts), _INFO)
    habits = Habits(seed=nodes.seed)
    housed = []
    for number, name in enumerate(nodes.names, start=first):
        runtime = SimulatedRuntime(capacity, timers, habits, pod_network(number))
        housed.append(Housed(NodeSpec(name, node_address(number)), runtime))
    return housed
