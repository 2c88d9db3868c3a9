"""What a run over windows came to."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from proreus.contract.simulation import Outcome
from proreus.kernels.arrays import F64
from proreus.model.measure import Measure, by_name
from proreus.worlds.rebalance.windows.simulation import columns as c
from proreus.worlds.rebalance.windows.simulation.layout import layout_now
from proreus.worlds.rebalance.windows.simulation.world import RewardWeights, WindowsWorld

MEASURES = by_name(
    Measure("violations", "%", "lower", "Requests served above the threshold", "violations"),
    Measure("over_steps", "%", "lower", "Steps of nodes above the threshold", "over"),
    Measure("hit", "%", "lower", "Requests hit by contention, the smallest satisfied first", "hit"),
    Measure("migrations", "1/window", "lower", "Migrations a window", "migrations"),
    Measure("migrated", "%/window", "lower", "CPU and memory of moved pods, in % of a node", "moved"),
    Measure("under_steps", "%", "lower", "Steps of nodes that are nearly idle", "idle"),
    Measure("unmet", "1/window", "lower", "Pods' resources with less than asked, a window", "unmet"),
    Measure("reward", "", "higher", "Reward a window", "reward"),
    Measure("decisions_per_s", "1/s", "higher", "Windows a second under its old name", "old rate"),
    Measure("windows_per_s", "1/s", "higher", "Windows a second, all decisions included", "rate"),
)


@dataclass(frozen=True)
class WindowFigures:
    """One window, for a log."""

    window: int
    requests: int
    over_requests: int
    """Served above the threshold."""
    hit: int
    """By contention."""
    steps: int
    over_steps: int
    under_steps: int
    unmet: int
    migrations: int
    migrated: float


def window_figures(outcomes: F64, first: int) -> list[WindowFigures]:
    """Every window of a run from `first` on; outcomes [windows, OUTCOMES]."""
    return [
        WindowFigures(
            window=first + place,
            requests=int(row[c.REQUESTS]),
            over_requests=int(row[c.OVER_REQUESTS]),
            hit=int(row[c.HIT]),
            steps=int(row[c.STEPS]),
            over_steps=int(row[c.OVER]),
            under_steps=int(row[c.UNDER]),
            unmet=int(row[c.UNMET]),
            migrations=int(row[c.MOVES]),
            migrated=float(row[c.MIGRATED]),
        )
        for place, row in enumerate(outcomes)
    ]


def outcome_of(outcomes: F64, world: WindowsWorld, first: int) -> Outcome:
    """What a run from window `first` on came to; outcomes [windows, OUTCOMES]."""
    return Outcome(
        measures=measures_of(outcomes, world.options.weights),
        columns=tuple(WindowFigures.__dataclass_fields__),
        rows=[tuple(asdict(figures).values()) for figures in window_figures(outcomes, first)],
        export=lambda: layout_now(world),
    )


def measures_of(outcomes: F64, weights: RewardWeights) -> dict[str, float]:
    """The measures of a run; outcomes [windows, OUTCOMES]."""
    total, windows = outcomes.sum(axis=0).tolist(), max(len(outcomes), 1)
    requests, steps = max(total[c.REQUESTS], 1.0), max(total[c.STEPS], 1.0)
    cost = weights.over * total[c.OVER] + weights.under * total[c.UNDER]
    cost += weights.unmet * total[c.UNMET] + weights.migrated * total[c.MIGRATED]
    return {
        "violations": 100.0 * total[c.OVER_REQUESTS] / requests,
        "over_steps": 100.0 * total[c.OVER] / steps,
        "hit": 100.0 * total[c.HIT] / requests,
        "migrations": total[c.MOVES] / windows,
        "migrated": total[c.MIGRATED] / windows,
        "under_steps": 100.0 * total[c.UNDER] / steps,
        "unmet": total[c.UNMET] / windows,
        "reward": -cost / windows,
    }
