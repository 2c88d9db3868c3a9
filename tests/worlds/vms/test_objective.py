"""What a search lowers follows from what decides in comparisons."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.worlds.vms.model import Full
from proreus.worlds.vms.play import briefly, play_runs
from proreus.worlds.vms.policies.catalogue import rule_policy
from proreus.worlds.vms.simulation.outcome import measures_of
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, with_servers
from proreus.worlds.vms.training.objective import Aim, Scale, ahead, best_of
from proreus.worlds.vms.training.training_trace import TrainingTrace

TRACE = TrainingTrace(machines=4_000, seed=11)
DECIDING = {"waiting": "total_wait", "recovering": "placements", "rejecting": "rejected"}


@pytest.mark.parametrize("name", sorted(DECIDING))
def test_the_measure_of_brief_runs_is_that_of_comparisons(name: str) -> None:
    options = with_servers(SCENARIOS[name], 2)
    runs = planned_runs(TRACE.work(options.double), options, np.arange(0, 2_000, 100), 600)
    policy = rule_policy("first_fit")
    (rows,) = briefly(runs, [policy])
    figures, _ = play_runs(runs, policy)
    expected = measures_of(figures, options.full, grows=False)[DECIDING[name]]
    assert Aim(options.full, "log").measure(rows) == pytest.approx(expected) and expected > 0


@pytest.mark.parametrize("scale", ["log", "trimmed"])
@pytest.mark.parametrize(
    ("full", "better", "worse"),
    [
        ("wait", [[10, 0, 5.0]], [[10, 0, 50.0]]),
        ("end", [[90, 0, 0.0]], [[80, 0, 0.0]]),
        ("reject", [[9, 1, 0.0]], [[8, 2, 0.0]]),
    ],
)
def test_what_is_better_costs_less_and_is_ahead(
    full: Full, better: list[list[float]], worse: list[list[float]], scale: Scale
) -> None:
    aim, rows = Aim(full, scale), (np.array(better), np.array(worse))
    assert aim.cost(rows[0]) < aim.cost(rows[1])
    measures = [aim.measure(row) for row in rows]
    assert best_of(full, measures) == 0
    assert ahead(full, *measures) > 0 > ahead(full, *reversed(measures))


def test_a_search_may_turn_nobody_away() -> None:
    assert np.isfinite(Aim("reject", "log").cost(np.array([[10.0, 0.0, 0.0]])))
