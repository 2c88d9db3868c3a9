"""Runs under control: what they cost, what they promise, what their measures mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.contract.play import step_by_step
from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.model.decision import NOTHING, Scale
from proreus.worlds.inference.model.objectives import Interval, Objectives
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario, from_json, parse
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.collector import late, promises
from proreus.worlds.inference.simulation.cost import spending
from proreus.worlds.inference.simulation.outcome import actions_of, turns

SMALL = replace(
    PRESETS["surge"],
    name="small",
    load_=replace(PRESETS["surge"].load_, rate=8.0, seconds=300.0, day_seconds=300.0),
    control=replace(PRESETS["surge"].control, interval=20.0),
)


def measures(scenario: InferenceScenario, policy: str, seed: int = 0) -> dict[str, float]:
    """Of a run of that rule."""
    return step_by_step(scenario, scenario.load(seed), POLICIES.make(policy), seed).measures


def test_a_cluster_that_stays_costs_its_time() -> None:
    found = measures(SMALL, "static")
    assert found["gpu_hours"] == pytest.approx(6 * 4 * 300.0 / 3600.0)
    assert found["cost"] == pytest.approx(found["gpu_hours"] * 4.76)
    idle, hottest = found["gpu_hours"] * 0.105, found["gpu_hours"] * 0.64
    assert idle < found["energy"] < hottest
    assert found["scaling_actions"] == found["oscillation"] == found["unfinished"] == 0


def test_an_instance_that_is_ordered_costs_at_once_and_serves_later() -> None:
    simulation = SMALL.start(SMALL.load(0), 0)
    before = simulation.next_decision()
    assert before is not None
    simulation.apply(Scale(token=2))
    after = simulation.next_decision()
    assert after is not None
    token = after.pool("token")
    assert (token.active, len(token.starting), after.total) == (3, 2, 8)
    assert token.starting[0] == pytest.approx(before.start_seconds - 20.0)
    for _ in range(6):
        simulation.apply(NOTHING)
    later = simulation.next_decision()
    assert later is not None and later.pool("token").active == 5


def test_the_oracle_needs_less_than_a_cluster_that_is_always_large() -> None:
    large = replace(SMALL, machines=replace(SMALL.machines, prompt=8, token=8))
    assert measures(large, "oracle")["weighed_gpu_hours"] < measures(large, "static")["weighed_gpu_hours"]


def test_more_load_than_a_cluster_can_serve_is_seen_in_every_measure() -> None:
    """What the time between tokens of splitwise-sim cannot show."""
    tiny = replace(SMALL, machines=replace(SMALL.machines, prompt=1, token=1, gpus=2, batch_limit=64))
    calm, crowd = (
        measures(replace(tiny, load_=replace(tiny.load_, rate=rate)), "static") for rate in (0.5, 12.0)
    )
    assert calm["slo_attainment"] > 95.0 > crowd["slo_attainment"]
    assert crowd["ttft_p90"] > 3 * calm["ttft_p90"] and crowd["tbt_p50"] > 1.3 * calm["tbt_p50"]


def test_spot_instances_are_lost_and_their_requests_are_not() -> None:
    scenario = replace(SMALL, control=replace(SMALL.control, spot_seconds=120.0))
    simulation = scenario.start(scenario.load(0), 0)
    policy = POLICIES.make("apa")
    while (seen := simulation.next_decision()) is not None:
        simulation.apply(policy.decide(seen))
    rows, slots = simulation.cluster.rows(), simulation.cluster.run.slot
    waiting = slots[slots[:, c.PHASE] != c.FREE]  # for an instance that nobody orders after the last decision
    assert rows[:, c.L_LOSSES].sum() + waiting[:, c.LOSSES].sum() > 0
    assert len(rows) + simulation.outcome().measures["unfinished"] == len(simulation.cluster.trace)


def test_what_is_no_change_is_refused_and_what_limits_forbid_too() -> None:
    simulation = SMALL.start(SMALL.load(0), 0)
    for wrong in (Scale(prompt=-3), Scale(token=6), Scale(mixed=1), Scale(migrate=3), "x", 10_000, True):
        with pytest.raises(IllegalDecision):
            simulation.apply(wrong)  # type: ignore[arg-type]
    seen = simulation.next_decision()
    assert seen is not None and seen.now == 20.0


def test_turns_count_changes_of_direction() -> None:
    steps = [Scale(prompt=1), Scale(prompt=2), NOTHING, Scale(prompt=-1), Scale(token=1), Scale(prompt=1)]
    assert turns(steps) == 2


def test_rewards_are_what_their_objectives_say() -> None:
    bad = Interval(missed=0.5, cost=0.5, changed=4, busy=(0.7, 0.2), energy=0.1)
    assert Objectives().reward(bad) == pytest.approx(-1.0 - 0.3 - 0.06 + 0.05 * 0.75)
    assert Objectives(0, 0, 0, 0, energy=2.0).reward(bad) == pytest.approx(-0.2)


def test_rewards_are_those_of_all_rows_of_an_interval() -> None:
    """Reckoned anew from the whole log and the whole bill, as a second reading of what a reward is."""
    scenario = PRESETS["hetero"]
    load = replace(scenario.load_, seconds=300.0, day_seconds=300.0, rate=12.0)
    scenario = replace(scenario, load_=load, control=replace(scenario.control, interval=20.0))
    simulation, rule = scenario.start(scenario.load(1), 1), POLICIES.make("apa")
    options, kinds = scenario.control, scenario.machines.spec().kinds
    most = options.limits.most_in_total * options.interval
    dearest = max(kind.gpus * kind.gpu.price for kind in kinds) / 3600.0
    weight = np.array([class_.weight for class_ in options.classes])
    bill, rewards, missed = spending(simulation.cluster), [], []
    while (seen := simulation.next_decision()) is not None:
        change, before = rule.decide(seen), simulation.cluster.ended
        reward = simulation.apply(change)
        if simulation.next_decision() is None:  # the bill is closed before what is under way has ended
            break
        rows = simulation.cluster.rows()[before:]
        met, _, _ = promises(rows, options)
        weights = weight[rows[:, c.L_SERVICE].astype(int)]
        missed.append(1.0 - (met * weights).sum() / weights.sum() if len(rows) else 0.0)
        paid, bill = bill, spending(simulation.cluster)
        seen_next = simulation.next_decision()
        assert seen_next is not None
        busy = tuple(pool.busy for pool in seen_next.pools)
        cost = (bill.dollars - paid.dollars) / (most * dearest)
        interval = Interval(missed[-1], cost, actions_of(change), busy, energy=0.0)
        rewards.append((reward, options.objectives.reward(interval)))
    found, expected = np.array(rewards).T
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    assert max(missed) > min(missed)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0.0, 1e6), max_size=60))
def test_lateness_is_numpys_ninetieth_percentile_to_the_last_digit(values: list[float]) -> None:
    assert late(np.array(values)) == (float(np.percentile(values, 90.0)) if values else 0.0)


def test_flags_change_what_they_name() -> None:
    flags = InferenceFlags(
        rate=3.0, model="llama3-8b", gpu="l40s", gpus=1, start_seconds=5.0, most_instances=9
    )
    chosen = flags.chosen("colocated")
    assert (chosen.load_.rate, chosen.machines.model, chosen.control.limits.most_in_total) == (
        3.0,
        "llama3-8b",
        9,
    )
    assert chosen.control.start.seconds(chosen.machines.spec().kinds[0]) == pytest.approx(5.0)
    with pytest.raises(UsageError, match="does not fit"):
        InferenceFlags(gpus=1).chosen("steady").machines.spec()
    with pytest.raises(UsageError, match="unknown scenario 'stedy'; did you mean 'steady'"):
        parse("stedy", None)
    assert from_json(chosen.to_json(), None) == chosen


def test_conversations_find_their_beginnings_where_instances_keep_them() -> None:
    short = InferenceFlags(seconds=150.0, rate=6.0)
    known = short.chosen("conversations")
    assert from_json(known.to_json(), None) == known
    without, blind = (
        replace(short, prefix_cache="off").chosen("conversations"),
        replace(short, scheduler="token_jsq").chosen("conversations"),
    )
    hits = [
        measures(inference_scenario, "static").get("prefix_hits")
        for inference_scenario in (known, blind, without)
    ]
    assert hits[0] is not None and hits[1] is not None and hits[2] is None
    prefix = known.load(0).prefix
    assert prefix is not None
    ideal = 100.0 * prefix.ideal_reuse() / int(known.load(0).prompt.sum())
    assert 0.0 < hits[1] < hits[0] <= ideal
    caching = InferenceFlags(prefix_cache="on", scheduler="kv_cache_aware").chosen("steady")
    assert all(kind.prefix_cache for kind in caching.machines.spec().kinds)
    with pytest.raises(UsageError, match="only instances of the engine 'chunked'"):
        InferenceFlags(prefix_cache="on", engine="orca").chosen("steady").machines.spec()


def test_loads_differ_by_seed_and_part() -> None:
    first, second = (SMALL.load(seed) for seed in (0, 1))
    assert not np.array_equal(first.arrival[:50], second.arrival[:50])
    assert not np.array_equal(first.arrival[:50], SMALL.of_part("train").load(0).arrival[:50])
