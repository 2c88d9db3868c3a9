"""Gymnasium views of the worlds. `import proreus` registers the ids of every registered world through it.

`gymnasium.make("proreus/Pods-v0", ...)` makes a `PodsEnv`, `"proreus/VirtualMachines-v0"` a `SchedEnv`,
`"proreus/Rebalance-v0"` a `DeployEnv`, `"proreus/Functions-v0"` a `ServerlessSchedulingEnv`: the classes are
here too, loaded when they are asked for, and so are names of documents such as `VectorMAC`. A world that has
lanes and no environment of its own gets a `LanesEnv`; one that has lanes, in either case, a `LanesVectorEnv`
(`gymnasium.make_vec`). `envs.sb3` adapts them all to Stable-Baselines3 and is imported by those who have it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from gymnasium.envs.registration import register, registry

from proreus.worlds import HEARERS, Registered, registered

if TYPE_CHECKING:
    from proreus.worlds.functions.env import ServerlessSchedulingEnv
    from proreus.worlds.pods.env import PodsEnv
    from proreus.worlds.rebalance.windows.env import DeployEnv
    from proreus.worlds.vms.env import SchedEnv

PODS = "proreus/Pods-v0"
VIRTUAL_MACHINES = "proreus/VirtualMachines-v0"
REBALANCE = "proreus/Rebalance-v0"

__all__ = [
    "PODS",
    "REBALANCE",
    "VIRTUAL_MACHINES",
    "DeployEnv",
    "PodsEnv",
    "SchedEnv",
    "ServerlessSchedulingEnv",
    "register_all",
]


def register_all() -> None:
    """Tell Gymnasium of the environments of all worlds that are registered now."""
    for world in registered().values():
        for name, place in world.envs.items():
            if name not in registry:
                register(id=name, entry_point=place, vector_entry_point=_vectors(world, name))
        for name, place in world.lanes.items():
            if name not in registry:
                register(
                    id=name,
                    entry_point="proreus.envs.lanes:LanesEnv",
                    vector_entry_point=_vectors(world, name),
                    kwargs={"lanes": place},
                )


def _vectors(world: Registered, name: str) -> str | None:
    """Where Gymnasium finds the vector environment of a world that has lanes; None: it makes one itself."""
    return f"proreus.envs.vector:{name}" if name in world.lanes else None


def __getattr__(name: str) -> Any:
    """The class of an environment, or another that a document named, by the name that it has in its world."""
    for world in registered().values():
        if name in world.named:
            return getattr(importlib.import_module(world.named[name]), name)
        for place in world.envs.values():
            module, _, attribute = place.partition(":")
            if attribute == name:
                return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'proreus.envs' has no attribute {name!r}")


HEARERS.append(register_all)
register_all()
