"""Operations that are launched together: on CUDA captured once as a graph and replayed, else run as they are.

On networks this small, launching an operation costs more than running it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_WARM_UP = 3  # runs before a capture: libraries allocate what they need on their first calls


def replayed(run: Callable[[], None], kept: Sequence[Tensor], device: torch.device) -> Callable[[], None]:
    """`run`, or a graph of it; `kept`: the tensors that it writes, which capturing leaves as they are."""
    if device.type != "cuda":
        return run
    before = [tensor.clone() for tensor in kept]
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            run()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    for tensor, content in zip(kept, before, strict=True):
        tensor.copy_(content)
    return graph.replay
