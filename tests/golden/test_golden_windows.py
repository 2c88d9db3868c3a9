"""What is claimed of learned movers: `learned` is behind no rule in violations, `learned-linear` has fewer of
them than the hotspot rule with no more migrations.

On generated windows, and on recorded ones that come after all that training saw.
"""

from __future__ import annotations

import numpy as np
import pytest

from proreus.kernels.arrays import F64
from proreus.worlds.rebalance.windows.play import play
from proreus.worlds.rebalance.windows.policies.catalogue import (
    MOVE_POLICIES,
    MovePolicyOptions,
    make_move_policy,
)
from proreus.worlds.rebalance.windows.policies.policy import WindowPolicy
from proreus.worlds.rebalance.windows.scenarios import parse_window_scenario
from tests.real_data import real_data

RULES = ("hotspot", "hotspot@0.7", "hotspot@0.6", "hotspot@0.5", "balance")
SCENARIOS = ("windows/serial", "windows/parallel", "windows/huawei-serial", "windows/huawei-parallel")
SEEDS = 20
STUDENT = 2.093 / np.sqrt(SEEDS)
"""Of Student's t with 19 degrees of freedom, 95 %: half an interval, in standard deviations."""


def measured(name: str, policies: dict[str, WindowPolicy]) -> dict[str, F64]:
    """[seeds, 2] violations and migrations of each policy."""
    data = real_data("vms") if "huawei" in name else None
    scenario = parse_window_scenario(name, data)
    by_policy: dict[str, list[list[float]]] = {policy: [] for policy in policies}
    for seed in range(SEEDS):
        work = scenario.load(seed)
        for policy, made in policies.items():
            measures = play(scenario, work, made, seed).measures
            by_policy[policy].append([measures["violations"], measures["migrations"]])
    return {policy: np.array(rows) for policy, rows in by_policy.items()}


@pytest.mark.golden
@pytest.mark.parametrize("name", SCENARIOS)
def test_linear_moves_break_the_threshold_less_than_the_hotspot_rule(name: str) -> None:
    figures = measured(name, {policy: make_move_policy(policy) for policy in ("learned-linear", "hotspot")})
    violations, migrations = (figures["learned-linear"] - figures["hotspot"]).T
    assert violations.mean() + STUDENT * violations.std(ddof=1) < 0.0
    assert migrations.mean() <= 0.0


@pytest.mark.golden
@pytest.mark.parametrize("name", SCENARIOS)
def test_learned_is_behind_no_rule(name: str) -> None:
    alone = MOVE_POLICIES.make("learned", MovePolicyOptions("violations"))
    rules = {rule_name: make_move_policy(rule_name) for rule_name in RULES}
    figures = measured(name, {"learned": make_move_policy("learned"), "alone": alone, **rules})
    for policy in ("learned", "alone"):
        for rule in RULES:
            violations = figures[policy][:, 0] - figures[rule][:, 0]
            assert violations.mean() - STUDENT * violations.std(ddof=1) <= 0.0, (policy, rule)
