"""Gymnasium hears of the environments as soon as it and this package are imported, in whichever order.

`import proreus` neither needs Gymnasium nor loads it: where it is not loaded yet, the ids are registered at
the moment somebody loads it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_REGISTRY = "gymnasium.envs"


def announce_environments() -> None:
    """Register the ids now, or once Gymnasium is there."""
    if _REGISTRY in sys.modules:
        importlib.import_module("proreus.envs")
    elif not any(isinstance(finder, _OnceItIsThere) for finder in sys.meta_path):
        sys.meta_path.insert(0, _OnceItIsThere())


class _OnceItIsThere:
    """Finds no module of its own: sees that Gymnasium's registry is loaded, and goes."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The registry's own spec, whose loader then registers; None for every other module."""
        if name != _REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            load = loader.exec_module

            def load_and_register(module: ModuleType) -> None:
                load(module)
                importlib.import_module("proreus.envs")

            loader.exec_module = load_and_register
        return spec
