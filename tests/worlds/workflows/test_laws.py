"""Laws of the world of workflows that hold whatever a policy does, and its agreement with plain Python."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.workflows.model import HOUR, Arrivals, Assign, Pass, Wait
from proreus.worlds.workflows.policies.catalogue import KINDS, rule_policy
from proreus.worlds.workflows.simulation.run import WorkflowsRun
from proreus.worlds.workflows.state.columns import (
    ARRIVED,
    DONE,
    ENDED,
    FUTURE,
    HEAPED,
    NOW,
    OVER,
    PASSED,
    PENALTY,
    PENDING,
    PLACED,
    READIES,
    READY,
    RENT,
)
from proreus.worlds.workflows.state.compile import compile_arrivals
from tests.oracles.workflows_world import PlainWorld
from tests.worlds.workflows.strategies import all_arrivals


def close(value: float) -> Any:
    """As near as two ways of adding up come."""
    return pytest.approx(value, rel=1e-9, abs=1e-6)


def started(arrivals: Arrivals) -> WorkflowsRun:
    return WorkflowsRun(arrivals, compile_arrivals(arrivals))


def any_policy(run: WorkflowsRun, dice: np.random.Generator) -> Assign | Wait | None:
    """A legal decision by chance; None: the run is over."""
    seen = run.next_decision()
    if seen is None:
        return None
    if seen.may_wait and dice.random() < 0.3:
        return Wait()
    return Assign(int(dice.choice(seen.ready)), int(dice.integers(seen.machines)))


@settings(max_examples=150)
@given(all_arrivals(), st.integers(0, 2**31))
def test_kernels_and_plain_python_agree(arrivals: Arrivals, seed: int) -> None:
    run, plain, dice = started(arrivals), PlainWorld(arrivals), np.random.default_rng(seed)
    earned = 0.0
    while (decision := any_policy(run, dice)) is not None:
        seen = run.next_decision()
        assert seen is not None
        # A run goes on by itself while nothing is ready.
        while not plain.ready() or plain.now < seen.now:
            plain.wait()
        assert plain.now == close(seen.now)
        assert plain.ready() == set(seen.ready.tolist())
        assert plain.events() or not seen.may_wait
        if isinstance(decision, Wait):
            plain.wait()
        else:
            task, node = decision.task, decision.node
            expected = plain.start_on(task, node) + plain.tasks[task].seconds[node]
            assert seen.finish(task, node) == close(expected)
            plain.place(task, node)
        earned += run.apply(decision)
    state = run.state
    for number, placed in enumerate(plain.tasks):
        assert state.node[number] == placed.node
        assert state.start[number] == close(placed.start)
        assert state.finish[number] == close(placed.finish)
    assert state.figure[RENT] == close(plain.rent())
    assert state.figure[PENALTY] == close(plain.penalties())
    if not arrivals.ahead:
        assert earned == close(-(plain.rent() + plain.penalties()))
    else:
        assert earned == close(-run.outcome().measures["slr"])


def work_left(run: WorkflowsRun, task: int) -> float:
    """By which tasks are offered, in plain words: of the workflow, less where it can still be in time."""
    work, state, now = run.work, run.state, float(run.state.figure[NOW])
    workflow = int(work.workflow[task])
    tasks = range(int(work.first[workflow]), int(work.first[workflow + 1]))
    left = sum(float(work.runtime[other]) for other in tasks if state.status[other] < PLACED)
    rented = sum(float(work.speed[node]) for node in range(work.speed.size) if state.until[node] > now)
    fastest = float(work.speed.max())
    rest = max(left / max(rented, fastest), float(work.runtime[task] + work.tail[task]) / fastest)
    return 0.3 * left if now + rest < work.deadline[workflow] else left


@settings(max_examples=80)
@given(all_arrivals(), st.integers(0, 2**31))
def test_what_is_offered_has_least_work_left_and_was_not_passed_over(arrivals: Arrivals, seed: int) -> None:
    run, dice = started(arrivals), np.random.default_rng(seed)
    passed: set[int] = set()
    moment = -np.inf
    while (seen := run.next_decision()) is not None:
        if seen.now > moment:
            passed, moment = set(), seen.now
        assert set(np.flatnonzero(run.state.passed).tolist()) == passed
        ready, task = seen.ready.tolist(), seen.offered
        assert run.state.tally[PASSED] == len(passed) < len(ready) and task in ready and task not in passed
        if arrivals.ahead:
            assert task == ready[0]
        else:
            least = min(work_left(run, candidate) for candidate in ready if candidate not in passed)
            assert work_left(run, task) == close(least) or abs(least) < 1e-6
        if seen.may_wait and dice.random() < 0.5:
            run.apply(Pass() if dice.random() < 0.5 else seen.machines)
            of, seconds = run.work.workflow, run.work.runtime
            passed |= {
                candidate
                for candidate in ready
                if of[candidate] == of[task] and seconds[candidate] >= 0.8 * seconds[task]
            }
        else:
            chosen = any_policy(run, dice)
            assert chosen is not None
            if isinstance(chosen, Wait):
                moment = -np.inf
            else:
                passed -= {chosen.task}
            run.apply(chosen)
        if run.state.tally[PASSED] == 0:
            passed = set()  # something happened at the same moment


@settings(max_examples=80)
@given(all_arrivals(), st.integers(0, 2**31))
def test_every_task_and_workflow_is_somewhere_at_every_moment(arrivals: Arrivals, seed: int) -> None:
    run, dice = started(arrivals), np.random.default_rng(seed)
    work, state = run.work, run.state
    while True:
        counted = {status: int((state.status == status).sum()) for status in range(5)}
        assert sum(counted.values()) == work.workflow.size
        assert counted[READY] == state.tally[READIES] and counted[DONE] == state.tally[ENDED]
        assert counted[PLACED] == state.tally[HEAPED]
        came = work.arrival[work.workflow] <= state.figure[NOW]
        assert ((state.status == FUTURE) == ~came).all()
        done = [
            bool((state.status[first:last] == DONE).all())
            for first, last in zip(work.first[:-1], work.first[1:], strict=True)
        ]
        assert sum(done) == state.tally[OVER] <= state.tally[ARRIVED]
        decision = any_policy(run, dice)
        if decision is None:
            break
        run.apply(decision)
    assert counted[DONE] == work.workflow.size and counted[PENDING] == 0 and all(done)


@settings(max_examples=60)
@given(all_arrivals(), st.sampled_from(sorted(KINDS)))
def test_precedence_capacity_rent_and_bounds_hold_for_every_rule(arrivals: Arrivals, name: str) -> None:
    run, policy = started(arrivals), rule_policy(name, 3)
    while (seen := run.next_decision()) is not None:
        run.apply(policy.decide(seen))
    work, state = run.work, run.state
    edges = [
        (int(work.parent[edge]), task, float(work.parent_delay[edge]))
        for task in range(work.workflow.size)
        for edge in range(work.parent_from[task], work.parent_from[task + 1])
    ]
    for parent, child, delay in edges:
        moved = delay if state.node[parent] != state.node[child] else 0.0
        assert state.start[child] >= state.finish[parent] + moved - 1e-9
    assert (state.start >= work.arrival[work.workflow]).all()
    for node in range(work.speed.size):
        mine = np.flatnonzero(state.node == node)
        spans = sorted(zip(state.start[mine], state.finish[mine], strict=True))
        assert all(before[1] <= after[0] + 1e-9 for before, after in pairwise(spans))
    integral = float((state.rented * np.array(arrivals.terms.prices) / HOUR).sum())
    assert state.figure[RENT] == close(integral)
    assert (state.rented + 1e-6 >= state.worked).all()
    for number in range(work.arrival.size):
        assert state.end[number] - work.arrival[number] >= work.bound[number] * (1 - 1e-9) - 1e-9
