"""Whatever happened to an open cluster, it answers as one that is compiled from what is there."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.rng import seeded
from proreus.model.pod import Pod
from proreus.policies.protocol import Explains
from proreus.worlds.pods.policies.catalogue import POLICIES, make_policy
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.state.observation import PodObservation
from tests.worlds.pods.histories import History, any_spec

NAMES = (*POLICIES.rules, "learned")


def same_sums(live: PodObservation, fresh: PodObservation) -> None:
    """What the state holds of every node and budget; a live cluster may have columns to spare."""
    for name in ("free", "gpu_left", "kinds"):
        actual, wanted = getattr(live.state, name), getattr(fresh.state, name)
        width = wanted.shape[1]
        if name == "free":
            places = [live.compiled.columns.index(column) for column in fresh.compiled.columns]
            actual = np.concatenate([actual[:, places], np.delete(actual, places, axis=1)], axis=1)
        assert actual[:, :width].tolist() == wanted.tolist(), name
        assert not actual[:, width:].any(), name
    for name in ("scored", "load", "fragment"):
        assert getattr(live.state, name).tolist() == getattr(fresh.state, name).tolist(), name
    assert live.cluster.nodes.visit_order.tolist() == fresh.cluster.nodes.visit_order.tolist()
    assert _budgets(live) == _budgets(fresh)


def _budgets(observation: PodObservation) -> list[tuple[int, int, int, int]]:
    budgets, state = observation.cluster.budgets, observation.state
    columns = (budgets.min_available, budgets.max_unavailable, state.healthy, state.expected)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return sorted(row for row in rows if row[:2] != (-1, -1))


def same_answers(live: PodObservation, fresh: PodObservation) -> None:
    """Refusals, mask and victims of every node."""
    assert live.refusals().tolist() == fresh.refusals().tolist()
    assert live.action_mask().tolist() == fresh.action_mask().tolist()
    for n in range(len(fresh.compiled.workload.nodes)):
        assert _victims(live, n) == _victims(fresh, n)


def _victims(observation: PodObservation, n: int) -> tuple[list[str], int] | None:
    victims = observation.victims(n)
    pods = observation.compiled.workload.pods
    return None if victims is None else ([pods[p].name for p in victims[0]], victims[1])


def same_decisions(live: PodObservation, fresh: PodObservation, kept: dict[str, PodPolicy]) -> None:
    """Every policy decides alike, for the same reasons; so does one that has seen the whole history."""
    for name in NAMES:
        policy, other = make_policy(name), make_policy(name)
        assert isinstance(policy, Explains)
        assert isinstance(other, Explains)
        explanation = other.explain(fresh)
        assert policy.explain(live) == explanation
        assert policy.decide(live) == other.decide(fresh) == explanation.decision
        assert _memory(policy, live) == _memory(other, fresh)
        _rewind(kept[name], live)
        assert kept[name].decide(live) == explanation.decision


def _memory(policy: PodPolicy, observation: PodObservation) -> tuple[int, ...]:
    """Where rotation and lots stand."""
    if not isinstance(policy, RulePolicy):
        return ()
    rule = policy.rule_for(observation.compiled, observation.state)
    return int(rule.cursor[0]), int(rule.rng[0])


def _rewind(policy: PodPolicy, observation: PodObservation) -> None:
    """Let rotation and lots start over, as they do in a policy that is new; caches stay."""
    if isinstance(policy, RulePolicy):
        rule = policy.rule_for(observation.compiled, observation.state)
        rule.cursor[:], rule.rng[:] = 0, seeded(0)


def check(history: History, kept: dict[str, PodPolicy]) -> None:
    """Ask about a pod of every kind that comes now, one that waits, and one of a kind never seen."""
    strangers = [Pod("asked", spec) for spec in (*history.menu, any_spec(history.rng))]
    for asked in strangers:
        live = history.observe(asked, waiting=3)
        fresh = history.fresh(asked, waiting=3)
        same_sums(live, fresh)
        same_answers(live, fresh)
        same_decisions(live, fresh, kept)
    if history.waiting:
        pod = history.rng.choice(history.waiting)
        live, fresh = history.observe(pod.name), history.fresh(pod)
        same_answers(live, fresh)


def run(seed: int, events: int, every: int) -> Counter[str]:
    """A history of so many events, checked now and then and at the end; returns how often what happened."""
    history = History(random.Random(seed))
    kept = {name: make_policy(name) for name in NAMES}
    for at in range(1, events + 1):
        history.step(list(kept.values()))
        if at % every == 0 or at == events:
            check(history, kept)
    reused = history.open.observe(Pod("asked", history.menu[0])).cluster.classes.epoch.max() > 1
    return history.told + Counter({"class_row_reused": int(reused)})


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30))
def test_any_history_equals_a_fresh_compile(seed: int, events: int) -> None:
    run(seed, events, every=10)


def test_a_long_history_meets_everything_and_equals_a_fresh_compile() -> None:
    counts = run(seed=7, events=400, every=40)
    assert {
        "add_node",
        "update_node",
        "remove_node",
        "remove_node_refused",
        "add_waiting",
        "add_running",
        "remove_pod",
        "bind",
        "preempt",
        "budget",
        "set_unlisted",
        "class_row_reused",
    } <= {what for what, times in counts.items() if times}


@pytest.mark.parametrize("seed", range(3))
def test_checks_after_every_event_equal_a_fresh_compile(seed: int) -> None:
    run(seed, events=25, every=1)
