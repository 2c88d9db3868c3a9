"""What `bench gpu` measures of lanes on a device: choices, bytes, bandwidth. Imports torch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from proreus.bench.train import EPOCHS, MINIBATCHES
from proreus.worlds.pods.state.compile import Compiled
from proreus.worlds.pods.training.batched_lanes import BatchOptions
from proreus.worlds.pods.training.device.lanes import DeviceLanes
from proreus.worlds.pods.training.device.ppo import DevicePPO
from proreus.worlds.pods.training.fused_ppo import FusedPPOConfig

_COPIED = 1 << 28  # bytes: more than any cache holds
_COPIED_HERE = 1 << 24


@dataclass(frozen=True)
class DeviceRates:
    """Of lanes on a device."""

    learning: float
    """Choices per second, learning included."""
    rollout: float
    """Choices per second of playing alone."""
    choosing: float
    """Percent of the steps of a lane in which it has a choice."""
    bytes_per_choice: float
    """That a step reads and writes: operations of torch one by one, of which caches may keep some from
    memory, and what kernels pass over at least."""
    bandwidth: float
    """Percent of what a copy of the device's memory reaches, at the rate of playing alone."""


def device_rates(
    workload: Compiled, shape: tuple[int, int], device: Literal["cpu", "cuda"], effort: tuple[int, float]
) -> DeviceRates:
    """shape: lanes, and steps of each per update; effort: updates at least, seconds at least."""
    lanes, steps = shape
    config = FusedPPOConfig(
        steps=10_000 * lanes * steps,
        rollout_steps=steps,
        epochs=EPOCHS,
        minibatches=MINIBATCHES,
        target_kl=0.0,
        device=device,
        worlds="device",
    )
    learner = DevicePPO(config, DeviceLanes(workload, lanes, 0, 0, "completion", BatchOptions(device=device)))
    learner.learn()
    learning = _median(lambda: learner.learn().figures["steps_per_second"], effort)
    chosen: list[float] = []

    def playing() -> float:
        begin = time.perf_counter()
        rollout = learner.play()
        made = int(rollout.chose[1 : steps + 1].sum())  # waits for the device
        chosen.append(made / (lanes * steps))
        return made / (time.perf_counter() - begin)

    rollout = _median(playing, effort)
    choosing = statistics.median(chosen)
    learner._player.rewind()
    # What kernels move is not counted, operation by operation: what they pass over at least is added.
    of_kernels = learner.lanes.world.least_bytes(learner.lanes.seen)
    moved = (bytes_moved(learner._player.play_step) + of_kernels) / (lanes * choosing)
    return DeviceRates(
        learning=learning,
        rollout=rollout,
        choosing=100.0 * choosing,
        bytes_per_choice=moved,
        bandwidth=100.0 * moved * rollout / copy_rate(torch.device(device)),
    )


def _median(measure: Callable[[], float], effort: tuple[int, float]) -> float:
    rates, begin = list[float](), time.perf_counter()
    while len(rates) < effort[0] or time.perf_counter() - begin < effort[1]:
        rates.append(measure())
    return statistics.median(rates)


# Of the column that these write into or read from, only the entries that are named are touched.
_INTO = {"index_copy_", "index_put_", "scatter_", "scatter_add_"}
_FROM = {"gather", "index", "index_select"}


class _Bytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what operations read and write; views move nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.moved = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.is_view:
            return out
        name = func._schema.name.split("::")[-1]
        touched: tuple[Any, ...] = (*args, *(kwargs or {}).values(), out)
        if name in _INTO:  # what is written is as large as what is given
            touched = (*args[1:], *args[-1:])
        elif name in _FROM:  # what is read is as large as what comes out
            touched = (*args[1:], out, out)
        for each in touched:
            for tensor in each if isinstance(each, list | tuple) else (each,):
                if isinstance(tensor, torch.Tensor):
                    self.moved += tensor.numel() * tensor.element_size()
        return out


@torch.no_grad()
def bytes_moved(run: Callable[[], object]) -> int:
    """Bytes that the operations of one run read and write."""
    with _Bytes() as counted:
        run()
    return int(counted.moved)


def copy_rate(device: torch.device) -> float:
    """Bytes per second, read and written, of a large copy."""
    size = _COPIED if device.type == "cuda" else _COPIED_HERE
    source = torch.ones(size, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)

    def copy() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        target.copy_(source)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return 2 * size / (time.perf_counter() - begin)

    copy()
    return _median(copy, (5, 0.0))
