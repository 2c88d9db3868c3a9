"""That a step over tensors can be captured as a CUDA graph, told without one.

Over tensors that hold nothing a step that looks at a value fails.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


def hollow(value: Any) -> Any:
    """The same values with tensors that hold nothing, on a device of their own."""
    if isinstance(value, torch.Tensor):
        return value.to("meta")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {item.name: hollow(getattr(value, item.name)) for item in dataclasses.fields(value)}
        return dataclasses.replace(value, **parts)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(hollow(item) for item in value))
    return value


class Elsewhere(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operations whose results are not on the device of the lanes: a graph would wait for them."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, list | tuple) else (out,):
            if isinstance(each, torch.Tensor) and each.device.type != "meta":
                self.operations.add(str(func))
        return out
