"""A policy that plans is told by when, so that its answer counts."""

from __future__ import annotations

import math

import pytest

from proreus.engine.agents.scheduling.deciding import Asked
from proreus.worlds.pods.policies.catalogue import PolicyOptions
from proreus.worlds.pods.policies.planner.policy import PlannerPolicy


def deadline_of(options: PolicyOptions, seconds: float) -> float:
    policy = Asked("planner", options, 0, seconds).policy
    assert isinstance(policy, PlannerPolicy)
    return policy.effort.deadline


def test_a_planner_thinks_for_a_part_of_the_deadline() -> None:
    assert deadline_of(PolicyOptions(), 0.1) == pytest.approx(20.0)
    assert deadline_of(PolicyOptions(deadline=5.0), 0.1) == 5.0, "as it was told"
    assert deadline_of(PolicyOptions(), math.inf) == 0.0, "nobody waits"
