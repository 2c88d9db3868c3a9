"""Runs of workflows side by side, as learners see them."""

from __future__ import annotations

import numpy as np

from proreus.contract.episodes import EpisodeLanes
from proreus.kernels.arrays import F32
from proreus.worlds.workflows.encoding.rows import SIZES, VERSION, encode, rows_for
from proreus.worlds.workflows.scenarios import WorkflowsScenario
from proreus.worlds.workflows.state.observation import WorkflowsObservation

_SEEDS = 100_000


def encoded(seen: WorkflowsObservation) -> tuple[F32, F32]:
    """(rows [K, F], context [G]) of a decision."""
    count = rows_for(seen.machines)
    rows = np.zeros((count, SIZES[0]), dtype=np.float32)
    context = np.zeros(SIZES[1], dtype=np.float32)
    encode(seen.work, seen.state, rows, context, np.zeros(count, dtype=np.uint8))
    return rows, context


def lanes_of(scenario: WorkflowsScenario, count: int) -> EpisodeLanes:
    """Episodes of the training part."""
    return EpisodeLanes(scenario.of_part("train"), count, _SEEDS, encoded, VERSION)
