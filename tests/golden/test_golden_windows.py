"""What is claimed of the learned mover: fewer violations than the hotspot rule with no more migrations.

On generated windows, and on recorded ones that come after all that training saw.
"""

from __future__ import annotations

import numpy as np
import pytest

from proreus.worlds.rebalance.windows.play import play
from proreus.worlds.rebalance.windows.policies.catalogue import make_move_policy
from proreus.worlds.rebalance.windows.scenarios import parse_window_scenario
from tests.real_data import real_data


@pytest.mark.golden
@pytest.mark.parametrize(
    "name", ["windows/serial", "windows/parallel", "windows/huawei-serial", "windows/huawei-parallel"]
)
def test_learned_moves_break_the_threshold_less_than_the_hotspot_rule(name: str) -> None:
    data = real_data("vms") if "huawei" in name else None
    scenario, found = parse_window_scenario(name, data), []
    for seed in range(20):
        work = scenario.load(seed)
        learned, rule = (
            play(scenario, work, make_move_policy(policy), seed).measures for policy in ("learned", "hotspot")
        )
        found.append([learned[key] - rule[key] for key in ("violations", "migrations")])
    violations, migrations = np.array(found).T
    half = 2.093 * violations.std(ddof=1) / np.sqrt(20)  # Student's t with 19 degrees of freedom, 95 %
    assert violations.mean() + half < 0.0
    assert migrations.mean() <= 0.0
