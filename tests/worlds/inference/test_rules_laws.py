"""Laws that every rule keeps, whatever it sees."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.inference.datasets.generator import Load
from proreus.worlds.inference.model.cluster import Role
from proreus.worlds.inference.model.decision import Scale, ScaleSteps
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import InferenceScenario
from proreus.worlds.inference.simulation.machines import InitialInstances
from proreus.worlds.inference.state.observation import Ability, InferenceObservation, PoolSeen, Traffic

SHAPES: tuple[tuple[Role, ...], ...] = (("prompt", "token"), ("mixed",))
ABILITY = Ability(10_000.0, 5_000.0, 500_000.0)


@st.composite
def observations(draw: st.DrawFn, roles: tuple[Role, ...], now: float) -> InferenceObservation:
    """A cluster in any state, nothing and far too much included."""
    share, count = st.floats(0.0, 1.0), st.integers(0, 10)
    many, late = st.integers(0, 100_000), st.floats(0.0, 1e4)
    pools = tuple(
        PoolSeen(
            role,
            draw(count),
            tuple(sorted(draw(st.lists(st.floats(0.0, 120.0), max_size=3)))),
            draw(st.integers(0, 2)),
            draw(many),
            draw(many),
            draw(st.integers(0, 10**8)),
            draw(share),
            draw(share),
        )
        for role in roles
    )
    rates = draw(st.lists(st.floats(0.0, 1e5), min_size=1, max_size=40))
    history = np.array([[rate / 1_000.0, rate, rate / 5.0] for rate in rates])
    newest = (rates[-1] / 1_000.0, rates[-1], rates[-1] / 5.0)
    traffic = Traffic(*newest, draw(many), draw(late), draw(late), draw(share), draw(late), draw(late))
    limits = Limits(least=draw(st.integers(0, 2)), most=draw(st.integers(2, 12)), most_in_total=16)
    total = sum(pool.coming + pool.draining for pool in pools)
    return InferenceObservation(
        now,
        10.0,
        pools,
        traffic,
        history,
        draw(many),
        total,
        limits,
        120.0,
        (ABILITY,) * len(roles),
        ScaleSteps(roles),
        lambda begin, until: newest,
    )


@pytest.mark.parametrize("name", POLICIES.rules)
@settings(max_examples=15, deadline=None)
@given(data=st.data(), roles=st.sampled_from(SHAPES))
def test_decisions_are_legal_and_reasons_change_nothing(
    name: str, data: st.DataObject, roles: tuple[Role, ...]
) -> None:
    rule, silent = POLICIES.make(name), POLICIES.make(name)
    for step in range(1, 4):
        seen = data.draw(observations(roles, 10.0 * step))
        reasons = rule.explain(seen)  # type: ignore[attr-defined]
        change = rule.decide(seen)
        assert reasons.decision == change == silent.decide(seen)
        assert seen.refusal(change) == ""
        assert seen.action_mask()[seen.steps.number(change)]
        assert all(math.isfinite(verdict.total) for verdict in reasons.verdicts)
        assert all(math.isfinite(score) for one in reasons.verdicts for score in one.scores.values())


def constant(roles: tuple[Role, ...], load: float, decisions: int, name: str) -> Iterator[tuple[int, ...]]:
    """The sizes of pools over time under one rule, where the same load comes for ever.

    Pools are as full as they have little room: everything seen is in proportion to work an instance.
    """
    rule = POLICIES.make(name)
    sizes = dict.fromkeys(roles, 3)
    ready: dict[Role, list[float]] = {role: [] for role in roles}
    prompts, outputs = load * ABILITY.prompt_tokens, load * ABILITY.output_tokens / 3.0
    row = (load * 10.0, prompts, outputs)
    for step in range(1, decisions + 1):
        now = 10.0 * step
        pools = []
        for role in roles:
            ready[role] = [at for at in ready[role] if at > now]
            active = max(sizes[role] - len(ready[role]), 1)
            each = {"prompt": load, "token": load / 3.0, "mixed": load * 4.0 / 3.0}[role] / active
            waits = tuple(at - now for at in ready[role])
            running, pending = round(40 * each * active), round(0.5 * each * active * ABILITY.prompt_tokens)
            pools.append(
                PoolSeen(
                    role,
                    active,
                    waits,
                    0,
                    round(each * active),
                    running,
                    pending,
                    min(0.6 * each, 1.0),
                    min(each, 1.0),
                )
            )
        use = max(pool.busy for pool in pools)
        traffic = Traffic(*row, 100, 0.1 + 0.3 * use, 0.3 * use, 1.0, 0.5 * use, 0.5 * use)
        seen = InferenceObservation(
            now,
            10.0,
            tuple(pools),
            traffic,
            np.array([row] * min(step, 360)),
            0,
            sum(pool.coming for pool in pools),
            Limits(least=1, most_in_total=60),
            120.0,
            (ABILITY,) * len(roles),
            ScaleSteps(roles),
            lambda begin, until: row,
        )
        change = rule.decide(seen)
        assert isinstance(change, Scale)
        for role in roles:
            sizes[role] += change.of(role) + change.moved_into(role)
            ready[role] += [now + 120.0] * max(change.of(role), 0)
            ready[role] = ready[role][: max(sizes[role] - 1, 0)]
        yield tuple(sizes.values())


@pytest.mark.parametrize("roles", SHAPES, ids="+".join)
@pytest.mark.parametrize("name", [*POLICIES.rules, "learned"])
def test_a_constant_load_gives_constant_pools(name: str, roles: tuple[Role, ...]) -> None:
    for load in (0.5, 6.7):
        sizes = list(constant(roles, load, 260, name))
        assert sizes[200:] == [sizes[200]] * 60, f"load {load}"


def scenario(roles: tuple[Role, ...]) -> InferenceScenario:
    """A few minutes of an uneasy load."""
    base = InferenceScenario("short", Load(rate=15.0, seconds=240.0, unrest=0.4))
    machines = InitialInstances() if len(roles) == 2 else InitialInstances(scheduler="jsq", mixed=2)
    return replace(base, machines=machines)


@pytest.mark.parametrize("roles", SHAPES, ids="+".join)
@pytest.mark.parametrize("name", POLICIES.rules)
def test_the_same_seed_gives_the_same_log(name: str, roles: tuple[Role, ...]) -> None:
    chosen = scenario(roles)
    work = chosen.load(3)
    logs = []
    for _ in range(2):
        run, rule = chosen.start(work, 3), POLICIES.make(name)
        while (seen := run.next_decision()) is not None:
            run.apply(rule.decide(seen))
        logs.append((run.outcome().rows, run.lines))
    assert logs[0] == logs[1]
