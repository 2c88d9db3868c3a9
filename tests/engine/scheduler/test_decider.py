"""Policies at the deadline: one that plans is told by when, one that misses while warming up is told of."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler import decider as deciding
from proreus.engine.scheduler.decider import Decider, GuardedPolicy
from proreus.worlds.pods.policies.catalogue import PolicyOptions
from proreus.worlds.pods.policies.planner.policy import PlannerPolicy
from proreus.worlds.pods.policies.wire_format import pod_strangers


def deadline_of(options: PolicyOptions, seconds: float) -> float:
    policy = GuardedPolicy("planner", options, 0, seconds).policy
    assert isinstance(policy, PlannerPolicy)
    return policy.effort.deadline


def test_a_planner_thinks_for_a_part_of_the_deadline() -> None:
    assert deadline_of(PolicyOptions(), 0.1) == pytest.approx(20.0)
    assert deadline_of(PolicyOptions(deadline=5.0), 0.1) == 5.0, "as it was told"
    assert deadline_of(PolicyOptions(), math.inf) == 0.0, "nobody waits"


def test_who_misses_while_it_is_warmed_up_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is left alone from then on: without a word nobody would know why the rules decide."""
    monkeypatch.setattr(deciding, "_WARM_UP_SECONDS", 0.3)
    path = tmp_path / "mine.py"
    path.write_text("class Spins:\n    def decide(self, seen):\n        while True: pass\n")
    strangers = pod_strangers()
    try:
        decider = Decider(Chosen(f"{path}:Spins"), PolicyOptions(), 0, strangers=strangers)
        decider.warm_up()
        message = f"policy {path}:Spins: while it was warmed up: no decision within 300.0 ms"
        assert decider.failing["policy"].startswith(message)
        assert [news.startswith(message) for news in decider.take_news()] == [True]
    finally:
        strangers.close()
