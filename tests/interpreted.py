"""Triton's interpreter, which plays kernels of a GPU on the CPU; import it before any module with kernels."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

from types import SimpleNamespace
from typing import Any

import numpy as np
from triton.runtime import interpreter

_patch_tensor = interpreter._patch_lang_tensor


def _patched(tensor: Any, scope: Any) -> None:
    """What Triton's interpreter makes of a tensor, and an index besides."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


def _knows_an_index() -> bool:
    """Triton 3.6 asks NumPy for `int` of an array of one entry, which NumPy 2.4 refuses; 3.7 does not."""
    of: dict[str, Any] = {}
    _patch_tensor(object, SimpleNamespace(set_attr=lambda _, name, value: of.update({name: value})))
    one = SimpleNamespace(handle=SimpleNamespace(data=np.ones(1, dtype=np.int32)))
    try:
        return int(of["__index__"](one)) == 1
    except (TypeError, DeprecationWarning):  # the latter from NumPy before 2.4, where warnings are errors
        return False


if not _knows_an_index():
    interpreter._patch_lang_tensor = _patched
