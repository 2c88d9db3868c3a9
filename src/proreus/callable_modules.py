"""Packages that can be called: `proreus.compare` is a folder of modules, and in a notebook it is a verb.

A folder and a function cannot share a name in Python, but a module may have a class of its own. Both names
are promised: the folder by the architecture, the function by the Python interface.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class _Verb(ModuleType):
    """A package whose call is that of the function of the same name in `proreus.api`."""

    def __call__(self, *words: Any, **flags: Any) -> Any:
        verb = getattr(importlib.import_module("proreus.api"), self.__name__.rpartition(".")[2])
        return verb(*words, **flags)


def make_callable(package: str) -> None:
    """For the last line of a package's `__init__`."""
    sys.modules[package].__class__ = _Verb
