"""A naive placement environment in torch, rollout alone: what a world on the device is measured against.

Nodes of two resources, pods of random size that leave after 64 steps, a scorer of four features per node, a
draw among the nodes with room. No filters, GPUs, queue, priorities or episodes: about the least that a
batched environment can do in plain torch operations. On CUDA a step is captured as a graph.
"""

from __future__ import annotations

import math
import time

import torch

from proreus.learning.tensor_lanes.cuda_graphs import replayed

_LIFE, _HIDDEN = 64, 32


class NaiveEnv:
    """E environments of N nodes, and a random scorer that plays them."""

    def __init__(self, lanes: int, nodes: int, device: torch.device) -> None:
        self._free = torch.ones((lanes, nodes, 2), device=device)
        self._ring = torch.zeros((_LIFE, lanes, nodes, 2), device=device)
        self._slot = torch.zeros(1, dtype=torch.int64, device=device)
        drawn = torch.Generator().manual_seed(0)
        self._first = torch.randn((4, _HIDDEN), generator=drawn).to(device)
        self._second = torch.randn((_HIDDEN, 1), generator=drawn).to(device)
        self._noise = torch.rand((_LIFE, lanes, 3), generator=drawn).to(device)  # the same ones over and over
        kept = [self._free, self._ring, self._slot]
        self._run = replayed(self.step, kept, device)
        self._device = device

    @torch.no_grad()
    def step(self) -> None:
        """One choice in every environment."""
        slot = self._slot
        self._free.add_(self._ring.index_select(0, slot)[0])
        noise = self._noise.index_select(0, slot)[0]
        request = (0.02 + 0.1 * noise[:, :2])[:, None]
        after = self._free - request
        legal = (after >= 0.0).all(2)
        rows = torch.cat([after, self._free], 2)
        bids = (torch.tanh(rows @ self._first) @ self._second)[:, :, 0].masked_fill(~legal, -math.inf)
        some = legal.any(1)
        chances = torch.softmax(torch.where(some[:, None], bids, 0.0), 1)
        passed = (torch.cumsum(chances, 1) <= noise[:, 2:]).sum(1).clamp(max=legal.shape[1] - 1)
        places = torch.arange(legal.shape[1], device=legal.device)
        taken = ((places == passed[:, None]) & some[:, None])[:, :, None] * request
        self._free.sub_(taken)
        self._ring.index_copy_(0, slot, taken[None])
        slot.add_(1).remainder_(_LIFE)

    def rate(self, seconds: float) -> float:
        """Choices per second of the clock."""
        lanes = self._free.shape[0]
        for _ in range(_LIFE):
            self._run()
        made, begin = 0, self._now()
        while True:
            for _ in range(16):
                self._run()
            made += 16 * lanes
            if (passed := self._now() - begin) > seconds:
                return made / passed

    def _now(self) -> float:
        if self._device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()
