"""One folder a world, and the one registry of them all.

A world is imported when it is asked for: `proreus --help` and `import proreus.envs` need its name alone. An
installed package may offer further worlds (entry points of the group `proreus.worlds`), and a program may
`register` one of its own; every verb, the environments and the conformance suite then know it.

`proreus.worlds()` lists them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from proreus.callable_modules import make_callable
from proreus.model.errors import unknown_name

if TYPE_CHECKING:
    from proreus.contract.world import World

GROUP = "proreus.worlds"


@dataclass(frozen=True)
class Registered:
    """Where a world is."""

    world: str
    """"module:WORLD"."""
    envs: Mapping[str, str] = field(default_factory=dict)
    """Gymnasium id -> "module:Class"."""
    lanes: Mapping[str, str] = field(default_factory=dict)
    """Gymnasium id -> "module:function" that makes `count` lanes, by default one: `envs.vector` shows them,
    and `envs.lanes` one of them where the world has no environment of that id."""
    named: Mapping[str, str] = field(default_factory=dict)
    """Class or function that a document named -> its module: `proreus.envs` offers them too."""


WORLDS: dict[str, Registered] = {
    "pods": Registered(
        "proreus.worlds.pods.world:WORLD",
        {"proreus/Pods-v0": "proreus.worlds.pods.env:PodsEnv"},
        lanes={"proreus/Pods-v0": "proreus.worlds.pods.training.episodes:episodes"},
    ),
    "vms": Registered(
        "proreus.worlds.vms.world:WORLD",
        {"proreus/VirtualMachines-v0": "proreus.worlds.vms.env:SchedEnv"},
        lanes={"proreus/VirtualMachines-v0": "proreus.worlds.vms.training.episodes:episodes"},
        named=dict.fromkeys(
            ("VectorMAC", "QmixAgent", "action_REGISTRY", "SchedEnvs"), "proreus.worlds.vms.document"
        )
        | {"linear_decay": "proreus.learning.optimiser"},
    ),
    "rebalance": Registered(
        "proreus.worlds.rebalance.world:WORLD",
        {"proreus/Rebalance-v0": "proreus.worlds.rebalance.windows.env:DeployEnv"},
        lanes={"proreus/Rebalance-v0": "proreus.worlds.rebalance.windows.training.lanes:episodes"},
    ),
    "workflows": Registered(
        "proreus.worlds.workflows.world:WORLD",
        {"proreus/Workflows-v0": "proreus.worlds.workflows.env:WorkflowsEnv"},
        lanes={"proreus/Workflows-v0": "proreus.worlds.workflows.training.episodes:episodes"},
    ),
    "functions": Registered(
        "proreus.worlds.functions.world:WORLD",
        {"proreus/Functions-v0": "proreus.worlds.functions.env:ServerlessSchedulingEnv"},
        lanes={"proreus/Functions-v0": "proreus.worlds.functions.training.lanes:episodes"},
    ),
    "inference": Registered(
        "proreus.worlds.inference.world:WORLD",
        {"proreus/Inference-v0": "proreus.worlds.inference.env:InferenceEnv"},
        lanes={"proreus/Inference-v0": "proreus.worlds.inference.training.lanes:episodes"},
        named=dict.fromkeys(
            (
                *("RLActionExecutor", "RLRewardCalculator", "RLStateCollector"),
                *("ScalingManager", "TraceRLSimulator"),
            ),
            "proreus.worlds.inference.document",
        ),
    ),
}


def registered() -> dict[str, Registered]:
    """Those of the package, of the program and of installed packages, by name."""
    return WORLDS | {name: entry for name, entry in _offered().items() if name not in WORLDS}


@lru_cache(maxsize=1)
def _offered() -> Mapping[str, Registered]:
    """By installed packages: their metadata, all of it, is read once a process."""
    return {entry.name: Registered(entry.value) for entry in entry_points(group=GROUP)}


HEARERS: list[Callable[[], None]] = []
"""Whoever keeps a list of what worlds offer, as Gymnasium does, hears of a new one."""


def register(name: str, entry: Registered) -> None:
    """Make a world known to this process and to the workers that it starts."""
    WORLDS[name] = entry
    for hear in HEARERS:
        hear()


def world(name: str) -> World:
    """The world of that name; a UsageError names the nearest one known."""
    known = registered()
    if name not in known:
        raise unknown_name("world", name, known)
    module, _, attribute = known[name].world.partition(":")
    world: World = getattr(importlib.import_module(module), attribute)
    return world


make_callable(__name__)
