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
from proreus.learning.optimiser import BETA1, BETA2, EPSILON
from proreus.model.errors import WorkError
from proreus.worlds.pods.policies.scorer import MAY_DELAY, MAY_REJECT, PARAMETERS
from proreus.worlds.pods.policies.torch_networks import bids_of, parts_of
from proreus.worlds.pods.training.rollout import Rollout

_WARM_UP = 3  # steps before a capture: libraries allocate what they need on their first calls


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
        self._params = torch.zeros(PARAMETERS, device=device)
        self._moments = torch.zeros((2, PARAMETERS), dtype=torch.float64, device=device)
        self._scalars = torch.zeros(8, dtype=torch.float64, device=device)
        self._out = torch.zeros(6, dtype=torch.float64, device=device)
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
        self._params.copy_(torch.from_numpy(params))
        self._moments.copy_(torch.from_numpy(moments))

    def store(self, params: F32, moments: F64) -> None:
        """Bring the parameters and moments back."""
        params[:] = self._params.cpu().numpy()
        moments[:] = self._moments.cpu().numpy()

    def step(self, samples: I64, weights: F32, rate: tuple[float, int], most: float) -> tuple[F64, float]:
        """One step of Adam; (means of the log's figures, its length), as `fused_ppo.gradient_of` sums them.

        samples: int64[B], e T + t; weights: clip, value, entropy; rate: of Adam, and its how-manieth step.
        """
        speed, count = rate
        shares = (1.0 - BETA1**count, 1.0 - BETA2**count)
        self._scalars.copy_(
            torch.tensor(
                [*weights[:3].tolist(), speed, *shares, most, 1.0 / len(samples)], dtype=torch.float64
            )
        )
        chosen, run = self._by_size.get(len(samples)) or self._prepare(len(samples))
        chosen.copy_(torch.from_numpy(samples))
        run()
        figures: F64 = self._out.cpu().numpy()
        return figures[:5].copy(), float(figures[5])

    def _prepare(self, size: int) -> tuple[Tensor, Callable[[], None]]:
        """A step for minibatches of this size: on CUDA captured as a graph."""
        chosen = torch.zeros(size, dtype=torch.int64, device=self._device)

        def run() -> None:
            self._descend(chosen)

        if self._device.type == "cuda":
            run = self._captured(run)
        self._by_size[size] = chosen, run
        return chosen, run

    def _captured(self, run: Callable[[], None]) -> Callable[[], None]:
        before = self._params.clone(), self._moments.clone()
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UP):
                run()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        self._params.copy_(before[0])
        self._moments.copy_(before[1])
        return graph.replay

    def _descend(self, chosen: Tensor) -> None:
        clip, value_weight, entropy_weight, speed, first_share, second_share, most, share = self._scalars
        vector = self._params.detach().requires_grad_()
        policy, value, entropy, kl, clipped = self._losses(vector, chosen, clip)
        loss = ((policy + value_weight * value - entropy_weight * entropy) * share).sum()
        gradient = torch.autograd.grad(loss, vector)[0].double()
        with torch.no_grad():
            length = gradient.square().sum().sqrt()
            gradient = gradient * torch.clamp(most / length, max=1.0)
            first = BETA1 * self._moments[0] + (1.0 - BETA1) * gradient
            second = BETA2 * self._moments[1] + (1.0 - BETA2) * gradient.square()
            self._moments[0].copy_(first)
            self._moments[1].copy_(second)
            change = speed * (first / first_share) / ((second / second_share).sqrt() + EPSILON)
            self._params.copy_((self._params.double() - change).float())
            figures = torch.stack([policy, value, entropy, kl, clipped]).double().mean(1)
            self._out.copy_(torch.cat([figures, length[None]]))

    def _losses(self, vector: Tensor, chosen: Tensor, clip: Tensor) -> tuple[Tensor, ...]:
        """Policy loss, squared error of the value, entropy, KL and whether it was clipped, each [B]."""
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
        logs = torch.log_softmax(logits, 1)
        chances = logs.exp()
        entropy = -(chances * logs.masked_fill(~allowed, 0.0)).sum(1)
        # An action is a place in the list of rows; delay and reject stand behind the last row.
        action = of["action"]
        column = torch.where(action < count, action, action - count + self._nodes)
        moved = logs.gather(1, column[:, None])[:, 0] - of["log_chance"]
        ratio = moved.exp()
        gain = ratio * of["advantage"]
        bounded = torch.minimum(torch.maximum(ratio, 1.0 - clip), 1.0 + clip).float() * of["advantage"]
        policy = -torch.minimum(gain, bounded)
        error = (value - of["target"]).square()
        clipped = ((ratio - 1.0).abs() > clip).float()
        return policy, error, entropy, ratio - 1.0 - moved, clipped


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
