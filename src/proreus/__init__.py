"""Proreus: learned scheduling for clusters.

One loop (observe, decide, act, measure, learn) over simulated worlds: pods on nodes, virtual machines on
servers, migrations. A service answers decisions over REST and gRPC. The folders are the architecture;
`docs/architecture.md` follows one pod through them.

From Python: `proreus.simulate`, `proreus.compare`, `proreus.train` and the others of `proreus.api`. With
Gymnasium: `gymnasium.make("proreus/Pods-v0")`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from proreus.gym_registration import announce_environments
from proreus.version import __version__

if TYPE_CHECKING:
    from proreus.api import (
        compare,
        load_policy,
        make_policy,
        make_scenario,
        scenarios,
        simulate,
        train,
        worlds,
    )

__all__ = [
    "__version__",
    "compare",
    "load_policy",
    "make_policy",
    "make_scenario",
    "scenarios",
    "simulate",
    "train",
    "worlds",
]


announce_environments()


def __getattr__(name: str) -> Any:
    """The names of `proreus.api`, loaded when they are first asked for: `import proreus` costs nothing."""
    if name in ("compare", "worlds"):  # folders that can be called: see `proreus.callable_modules`
        return importlib.import_module(f"proreus.{name}")
    if name in __all__:
        return getattr(importlib.import_module("proreus.api"), name)
    raise AttributeError(f"module 'proreus' has no attribute {name!r}")
