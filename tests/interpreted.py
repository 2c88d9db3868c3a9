"""Triton's interpreter, which plays kernels of a GPU on the CPU; import it before any module with kernels."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

from typing import Any

from triton.runtime import interpreter

_patch_tensor = interpreter._patch_lang_tensor


def _patched(tensor: Any, scope: Any) -> None:
    """Triton 3.6 asks NumPy for `int` of an array of one entry, which NumPy 2.4 no longer gives."""
    _patch_tensor(tensor, scope)
    scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))


interpreter._patch_lang_tensor = _patched
