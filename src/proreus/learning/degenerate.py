"""Whether there is anything to learn: where every policy scores alike, hours of training find nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from proreus.contract.lanes import Arrays
from proreus.model.errors import WorkError

_CANDIDATES = 3


def refuse_where_all_score_alike(
    start: Arrays, judged: Mapping[str, float], judge: Callable[[Arrays], Mapping[str, float]]
) -> None:
    """Policies with other weights, drawn at random, must not all score exactly what the start does.

    The first that scores otherwise settles it, so that this is one judgement in nearly every run.
    """
    random = np.random.default_rng(0)
    if not all(judge(_drawn(start, random)) == judged for _ in range(_CANDIDATES)):
        return
    names = ", ".join(judged)
    raise WorkError(
        f"nothing to learn on {names}: every candidate scores alike there, {_CANDIDATES} policies with "
        "weights drawn at random exactly as the start; choose work that leaves too little room for everything"
    )


def _drawn(start: Arrays, random: np.random.Generator) -> Arrays:
    """Weights of no meaning, of the size of the start's largest."""
    tensors = {}
    for name, array in start.items():
        noise = random.normal(0.0, max(1.0, float(np.abs(array).max())), array.shape)
        tensors[name] = (array + noise).astype(array.dtype)
    return tensors
