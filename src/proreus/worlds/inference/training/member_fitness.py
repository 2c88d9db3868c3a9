"""How good a member of a search is: what it pays, in what others pay for the same loads.

Groups of runs are weighed together, so that single bad runs do not decide. A scenario is held against the
rule that is best there, which also says how many promises are to be kept; other groups are held against what
their rows say.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import numpy as np

_MEAN, _EACH = 0.6, 0.4
"""What the mean of a group counts, in which the worst decide, and that of its episodes' logarithms."""
_BEHIND, _AHEAD = 2.0, 0.05
"""What it costs besides not to be so far ahead of the rule that is best in a scenario."""
_PROMISE, _SHORT = 20.0, 0.002
"""What it costs to keep fewer promises than are wanted, and by how much fewer may be than were."""
_ENOUGH, _BUDGET, _POSSIBLE = 0.993, 0.99, 0.9
"""Shares of promises: more than the first is never wanted, nor fewer than the second of a scenario, unless
its rule keeps less than the third."""
_TAIL, _TENTH = 0.15, 0.1
"""What the worst tenth of all episodes of scenarios counts."""
_OF_DRAWN = 0.25
"""What a group that is no scenario counts where a scenario counts one."""


class Rated(NamedTuple):
    """One run of a member."""

    paid: float
    against: float
    """What it is held against, in the same unit."""
    kept: float
    """Share of requests that were served as promised."""
    promised: float
    """The same of what it is held against."""


def fitness_of(groups: Mapping[str, Sequence[Rated]], scenarios: Container[str]) -> float:
    """Minus the logarithm of what is paid, and of what it costs besides; more is better.

    `scenarios`: groups that are held against a rule.
    """
    total, weights, logs = 0.0, 0.0, list[float]()
    for group, rows in groups.items():
        ours, other, kept, promised = np.array(rows).T
        ratios, gap = np.log(ours / other), math.log(ours.mean() / other.mean())
        cost = _MEAN * gap + _EACH * float(ratios.mean())
        wanted = min(float(promised.mean()) - _SHORT, _ENOUGH)
        if group in scenarios and promised.mean() > _POSSIBLE:
            wanted = max(wanted, _BUDGET)
        cost += _PROMISE * max(wanted - float(kept.mean()), 0.0)
        if group in scenarios:
            cost += _BEHIND * max(gap + _AHEAD, 0.0)
            logs += ratios.tolist()
        weight = 1.0 if group in scenarios else _OF_DRAWN
        total, weights = total + weight * cost, weights + weight
    worst = sorted(logs)[-max(round(_TENTH * len(logs)), 1) :]
    tail = _TAIL * float(np.mean(worst)) if worst else 0.0
    return -total / max(weights, 1e-9) - tail
