"""Imitation: scores are fitted so that what a teacher chose has the highest.

The loss is the cross-entropy of the teacher's choices under the softmax of the scores, and a penalty. All
choices are learned from at once, by L-BFGS over gradients of autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from proreus.model.errors import WorkError

CHOSEN = 0
"""The column of the scores that is the teacher's choice."""


def cross_entropy(scores: Tensor) -> Tensor:
    """The mean over the choices; scores: [choices, candidates], minus infinity where there is none."""
    return -torch.log_softmax(scores, 1)[:, CHOSEN].mean()


def agreement(scores: Tensor) -> float:
    """The share of the choices in which what the teacher chose has the highest score."""
    others = scores[:, CHOSEN + 1 :].amax(1)
    return float((scores[:, CHOSEN] >= others).double().mean())


def fit(parameters: Sequence[Tensor], loss: Callable[[], Tensor], iterations: int) -> float:
    """Change the parameters so that the loss is least; returns it."""
    for parameter in parameters:
        parameter.requires_grad_()
    search = torch.optim.LBFGS(
        parameters, max_iter=iterations, history_size=20, line_search_fn="strong_wolfe"
    )

    def evaluated() -> Tensor:
        search.zero_grad()
        current = loss()
        current.backward()  # type: ignore[no-untyped-call]
        return current

    search.step(evaluated)  # type: ignore[no-untyped-call]
    for parameter in parameters:
        parameter.requires_grad_(False)
    least = float(loss())
    if not torch.isfinite(torch.tensor(least)):
        raise WorkError(f"imitate: the loss is {least}: choose another --decay")
    return least
