"""Steps of PPO's optimiser by torch: the gradient on a GPU, while the worlds play on the host's cores.

The same loss, clipping and Adam as the kernels of `fused_ppo`, over whole minibatches at once. On CUDA
a step is captured once as a graph and replayed, because on networks this small launching the operations
costs more than running them. On the device "cpu" the same code runs as it is: that is how it is tested
against the kernels where there is no GPU.

E lanes, T steps of a rollout, N most nodes, F pair and G context features, P parameters, B a minibatch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from proreus.kernels.arrays import F32, F64, I64
from proreus.learning.clipped_loss import LossTerms, Taken, clipped_terms
from proreus.learning.tensor_lanes.cuda_graphs import replayed
from proreus.model.errors import WorkError
from proreus.worlds.pods.policies.scorer import MAY_DELAY, MAY_REJECT
from proreus.worlds.pods.policies.torch_networks import bids_of, parts_of
from proreus.worlds.pods.training.rollout import Rollout
from proreus.worlds.pods.training.torch_adam import CLIP, LENGTH, TorchAdam


class TorchDescent:
    """Holds a rollout, the parameters and the optimiser's moments on a device; descends in minibatches."""

    def __init__(self, rollout: Rollout, device_name: Literal["cpu", "cuda"]) -> None:
        lanes, steps = rollout.action.shape
        device = torch.device(device_name)
        self._device, self._steps = device, steps
        self._nodes = rollout.rows.shape[1] // (steps + 1)
        self._rows = torch.zeros(rollout.rows.shape, device=device)  # [E, (T + 1) N, F]
        self._fixed = {
            name: torch.zeros(getattr(rollout, name)[:, :steps].shape, dtype=kind, device=device)
            for name, kind in _PER_CHOICE.items()
        }
        self._first = torch.zeros((lanes, steps), dtype=torch.int64, device=device)
        self._count = torch.zeros((lanes, steps), dtype=torch.int64, device=device)
        self._heads = torch.zeros((lanes, 2), dtype=torch.bool, device=device)
        self._adam = TorchAdam(device)
        self._by_size: dict[int, tuple[Tensor, Callable[[], None]]] = {}
        self._pinned = _pin(rollout.rows) if device.type == "cuda" else 0

    def close(self) -> None:
        """Give the host's memory back; before the rollout is."""
        if self._pinned:
            torch.cuda.synchronize()
            torch.cuda.cudart().cudaHostUnregister(self._pinned)  # type: ignore[no-untyped-call]
            self._pinned = 0

    def load(self, rollout: Rollout, params: F32, moments: F64) -> None:
        """Bring what was played, and where the optimiser stands, onto the device."""
        lanes, steps = rollout.action.shape
        for e in range(lanes):  # only the rows that were played; the rest was never touched
            used = int(rollout.start[e, steps])
            self._rows[e, :used].copy_(torch.from_numpy(rollout.rows[e, :used]), non_blocking=True)
        for name, there in self._fixed.items():
            there.copy_(torch.from_numpy(np.ascontiguousarray(getattr(rollout, name)[:, :steps])))
        starts = rollout.start + np.arange(lanes)[:, None] * rollout.rows.shape[1]
        self._first.copy_(torch.from_numpy(np.ascontiguousarray(starts[:, :steps])))
        self._count.copy_(torch.from_numpy(np.diff(rollout.start, axis=1)[:, :steps].copy()))
        allowed = np.stack([rollout.heads & MAY_DELAY, rollout.heads & MAY_REJECT], axis=1) > 0
        self._heads.copy_(torch.from_numpy(allowed))
        self._adam.load(params, moments, 0)

    def store(self, params: F32, moments: F64) -> None:
        """Bring the parameters and moments back."""
        params[:] = self._adam.params.cpu().numpy()
        moments[:] = self._adam.moments.cpu().numpy()

    def step(self, samples: I64, weights: F32, rate: tuple[float, int], most: float) -> tuple[F64, float]:
        """One step of Adam; (means of the log's figures, its length), as `fused_ppo.gradient_of` sums them.

        samples: int64[B], e T + t; weights: clip, value, entropy; rate: of Adam, and its how-manieth step.
        """
        speed, count = rate
        clip, value, entropy = weights[:3].tolist()
        self._adam.begin([clip, value, entropy, speed, most, 0.0])
        self._adam.count.fill_(count - 1)
        chosen, run = self._by_size.get(len(samples)) or self._prepare(len(samples))
        chosen.copy_(torch.from_numpy(samples))
        run()
        figures: F64 = self._adam.log.cpu().numpy()
        return figures[:LENGTH].copy(), float(figures[LENGTH])

    def _prepare(self, size: int) -> tuple[Tensor, Callable[[], None]]:
        """A step for minibatches of this size: on CUDA captured as a graph."""
        chosen = torch.zeros(size, dtype=torch.int64, device=self._device)
        share = torch.full((size,), 1.0 / size, dtype=torch.float64, device=self._device)

        def run() -> None:
            vector = self._adam.vector()
            self._adam.step(vector, self._losses(vector, chosen), share)

        self._by_size[size] = chosen, replayed(run, self._adam.kept(), self._device)
        return self._by_size[size]

    def _losses(self, vector: Tensor, chosen: Tensor) -> LossTerms:
        of = {name: there.flatten(0, 1)[chosen] for name, there in self._fixed.items()}
        count = self._count.flatten()[chosen]
        places = torch.arange(self._nodes, device=self._device)
        legal = places < count[:, None]  # [B, N]
        where = self._first.flatten()[chosen][:, None] + torch.minimum(
            places, (count[:, None] - 1).clamp(min=0)
        )
        rows = self._rows.flatten(0, 1)[where]  # [B, N, F]
        weights = parts_of(vector)
        bids, heads, value = bids_of(weights, rows, legal, of["context"])
        allowed = torch.cat([legal, self._heads[chosen // self._steps]], 1)  # [B, N + 2]
        logits = torch.cat([bids, heads], 1).masked_fill(~allowed, -math.inf)
        # An action is a place in the list of rows; delay and reject stand behind the last row.
        action = of["action"]
        column = torch.where(action < count, action, action - count + self._nodes)
        taken = Taken(column, of["log_chance"], of["advantage"], of["target"])
        return clipped_terms(logits, allowed, value, taken, self._adam.settings[CLIP].float())


_PER_CHOICE = {
    "context": torch.float32,
    "action": torch.int64,
    "log_chance": torch.float32,
    "advantage": torch.float32,
    "target": torch.float32,
}


def _pin(array: F32) -> int:
    """Let the device read the host's array without a copy in between; returns its address."""
    address = int(array.ctypes.data)
    code = torch.cuda.cudart().cudaHostRegister(address, array.nbytes, 0)  # type: ignore[no-untyped-call]
    if int(code) != 0:
        raise WorkError(f"--device cuda: the host's memory cannot be pinned (CUDA error {int(code)})")
    return address
