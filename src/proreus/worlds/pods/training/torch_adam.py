"""Steps of PPO's optimiser by torch on a device: the scorer's parameters, Adam's moments, what a step tells.

Everything stays on the device, also whether the policy has moved far enough for this update: then a step
changes nothing more. Nobody waits for the device between two steps.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proreus.kernels.arrays import F32, F64
from proreus.learning.clipped_loss import LossTerms
from proreus.learning.optimiser import BETA1, BETA2, EPSILON
from proreus.worlds.pods.policies.scorer import PARAMETERS

CLIP, VALUE_WEIGHT, ENTROPY_WEIGHT, RATE, MAX_GRADIENT, TARGET_KL = range(6)
# Places in `TorchAdam.log`: means of the loss terms in their order, the gradient's length.
LENGTH, LOGGED = 5, 6


class TorchAdam:
    """Parameters and moments where they are learned."""

    def __init__(self, device: torch.device) -> None:
        self.params = torch.zeros(PARAMETERS, device=device)
        self.moments = torch.zeros((2, PARAMETERS), dtype=torch.float64, device=device)
        self.settings = torch.zeros(6, dtype=torch.float64, device=device)
        self.count = torch.zeros((), dtype=torch.float64, device=device)
        """Steps so far."""
        self.live = torch.ones((), dtype=torch.bool, device=device)
        """Whether steps change anything: an update ends where the KL is past its target."""
        self.log = torch.zeros(LOGGED, dtype=torch.float64, device=device)
        """Sums over the steps of this update, and how many there were in `steps`."""
        self.steps = torch.zeros((), dtype=torch.float64, device=device)

    def kept(self) -> list[Tensor]:
        """What a step writes."""
        return [self.params, self.moments, self.count, self.live, self.log, self.steps]

    def begin(self, settings: list[float]) -> None:
        """An update with these settings, in the order of the places above."""
        self.settings.copy_(torch.tensor(settings, dtype=torch.float64))
        self.live.fill_(True)
        self.log.zero_()
        self.steps.zero_()

    def vector(self) -> Tensor:
        """The parameters to differentiate by."""
        return self.params.detach().requires_grad_()

    def step(self, vector: Tensor, terms: LossTerms, share: Tensor) -> None:
        """One step down the loss; share: float64[B], the weight of each choice; they add up to 1."""
        settings = self.settings
        loss = terms.policy + settings[VALUE_WEIGHT] * terms.error - settings[ENTROPY_WEIGHT] * terms.entropy
        gradient = torch.autograd.grad((loss * share).sum(), vector)[0].double()
        self.move(gradient, (torch.stack(terms).detach().double() * share).sum(1))

    @torch.no_grad()
    def move(self, gradient: Tensor, figures: Tensor) -> None:
        """One step against gradient, float64[PARAMETERS]; figures: float64[5], means of the loss terms."""
        settings = self.settings
        length = gradient.square().sum().sqrt()
        gradient = gradient * torch.clamp(settings[MAX_GRADIENT] / length, max=1.0)
        live, count = self.live, self.count + self.live
        first = BETA1 * self.moments[0] + (1.0 - BETA1) * gradient
        second = BETA2 * self.moments[1] + (1.0 - BETA2) * gradient.square()
        shares = 1.0 - BETA1**count, 1.0 - BETA2**count
        change = settings[RATE] * (first / shares[0]) / ((second / shares[1]).sqrt() + EPSILON)
        moved = (self.params.double() - change).float()
        self.params.copy_(torch.where(live, moved, self.params))
        self.moments.copy_(torch.where(live, torch.stack([first, second]), self.moments))
        self.log.add_(torch.where(live, torch.cat([figures, length[None]]), 0.0))
        self.steps.add_(live)
        self.count.copy_(count)
        target = settings[TARGET_KL]
        self.live.copy_(live & ~((target > 0.0) & (figures[3] > target)))

    def load(self, params: F32, moments: F64, count: int) -> None:
        """Take up where an optimiser on the host stands."""
        self.params.copy_(torch.from_numpy(params))
        self.moments.copy_(torch.from_numpy(moments))
        self.count.fill_(count)
