"""The state collector of a real service: histograms, restarts, starts that are learned, and that it sees what
the simulator's own collector sees."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.worlds.inference.model.start_up import Limits, starting_within
from proreus.worlds.inference.model.vllm import REQUEST_BOUNDS, TBT_BOUNDS, TTFT_BOUNDS
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.simulation.collector import Collector
from proreus.worlds.inference.state.histograms import Histogram, nothing, together
from proreus.worlds.inference.state.live_collector import LiveCollector, LiveOptions
from proreus.worlds.inference.state.observation import Ability
from proreus.worlds.inference.state.replica_starts import ReplicaStarts
from proreus.worlds.inference.state.replicas import Absent, Reading, ReplicaSample, Unreadable, movement

ABILITY = Ability(10_000.0, 2_000.0, 100_000.0)
SECONDS = st.lists(st.floats(0.0005, 100.0), min_size=1, max_size=200)


def observed(values: list[float], bounds: tuple[float, ...] = TTFT_BOUNDS) -> Histogram:
    whole = (*bounds, math.inf)
    counts = tuple(float(sum(value <= bound for value in values)) for bound in whole)
    return Histogram(whole, counts, sum(values))


@given(SECONDS, st.floats(0.01, 50.0))
def test_a_share_lies_between_the_edges_of_its_bucket(values: list[float], limit: float) -> None:
    share = observed(values).share_within(limit)
    true = sum(value <= limit for value in values) / len(values)
    assert share.low <= true <= share.high
    assert share.low <= share.value <= share.high
    if limit in TTFT_BOUNDS:
        assert share.width == 0.0


@given(SECONDS, st.floats(0.01, 0.99))
def test_a_quantile_lies_in_the_bucket_of_the_true_one(values: list[float], share: float) -> None:
    true = sorted(values)[math.ceil(share * len(values)) - 1]
    quantile = observed(values).quantile(share)
    place = np.searchsorted(TTFT_BOUNDS, true)
    low = 0.0 if place == 0 else TTFT_BOUNDS[place - 1]
    assert low <= quantile <= TTFT_BOUNDS[place]


@given(SECONDS, SECONDS)
def test_what_was_observed_since_is_what_came_later(before: list[float], later: list[float]) -> None:
    whole = observed([*before, *later])
    since = whole.since(observed(before))
    assert since is not None
    assert since.counts == observed(later).counts
    assert together([observed(before), since]) is not None
    assert observed(before).since(whole) is None or not later


def sample(at: float, ended: float = 0.0, **more: float) -> ReplicaSample:
    fields = {"running": 0.0, "waiting": 0.0, "kv_use": 0.0, "prompt_tokens": 0.0, "output_tokens": 0.0}
    return ReplicaSample(
        at=at,
        ended=ended,
        served=ended,
        ttft=nothing(TTFT_BOUNDS),
        tbt=nothing(TBT_BOUNDS),
        wait=nothing(REQUEST_BOUNDS),
        **{**fields, **more},
    )


def test_arrivals_are_ends_and_what_is_under_way_in_addition() -> None:
    moved = movement(sample(20.0, ended=30, running=5, waiting=7), sample(10.0, ended=20, running=2))
    assert (moved.arrived, moved.ended, moved.seconds, moved.began_anew) == (20.0, 10.0, 10.0, False)


def test_a_replica_that_restarted_counts_from_nothing() -> None:
    moved = movement(sample(20.0, ended=3, running=2), sample(10.0, ended=5_000, running=50))
    assert moved.began_anew
    assert (moved.arrived, moved.ended) == (5.0, 3.0)


def test_prompts_that_are_computed_count_as_pending() -> None:
    first_tokens = observed([0.1] * 12)
    replica_sample = replace(sample(10.0, ended=10, running=5, waiting=2), ttft=first_tokens)
    assert replica_sample.prompts == 5.0  # 17 came, 12 have had a token
    assert replace(replica_sample, served=2.0).prompts == 2.0  # many were aborted: those that wait at least
    assert replace(replica_sample, served=500.0).prompts == 7.0


def collector(**more: object) -> LiveCollector:
    options = LiveOptions({"mixed": ABILITY}, Limits(1, 8, 8))
    return LiveCollector(replace(options, **more))  # type: ignore[arg-type]


def look(live: LiveCollector, now: float, **readings: Reading) -> tuple[int, int, int]:
    """(active, starting, draining)."""
    pool = live.look(now, {"mixed": readings}).observation.pools[0]
    return pool.active, len(pool.starting), pool.draining


def test_absence_is_a_start_and_not_zero() -> None:
    live = collector()
    assert look(live, 0.0, a=sample(0.0), b=Absent()) == (1, 0, 0)
    live.ordered(0.0, {"mixed": 3})
    assert look(live, 10.0, a=sample(10.0), b=Absent()) == (1, 2, 0)
    assert look(live, 20.0, a=sample(20.0), b=sample(20.0)) == (2, 1, 0)
    live.ordered(20.0, {"mixed": 1})
    assert look(live, 30.0, a=sample(30.0), b=sample(30.0)) == (1, 0, 1)
    assert look(live, 40.0, a=sample(40.0), b=Absent()) == (1, 0, 0)


def test_who_cannot_be_read_is_still_there() -> None:
    live = collector()
    look(live, 0.0, a=sample(0.0, running=3.0), b=sample(0.0, running=4.0))
    seen = live.look(10.0, {"mixed": {"a": sample(10.0, running=3.0), "b": Unreadable("absurd", "NaN")}})
    assert (seen.observation.pools[0].active, seen.observation.pools[0].running) == (2, 7)
    assert (seen.read, seen.unreadable) == (1, ("b: NaN",))


def test_requests_of_a_replica_that_cannot_be_read_go_on() -> None:
    live = collector()
    for step in range(3):
        readings: dict[str, Reading] = {name: sample(10.0 * step, ended=50.0 * step) for name in "abc"}
        before = live.look(10.0 * step, {"mixed": readings}).observation
    for step in (3, 4):
        readings = {"a": sample(10.0 * step, ended=50.0 * step), "b": Unreadable("absurd", "NaN")}
        seen = live.look(10.0 * step, {"mixed": {**readings, "c": Unreadable("slow", "")}}).observation
        assert seen.traffic.requests == before.traffic.requests == 15.0
        assert seen.traffic.ended == 50
    # When it is read again, its counters say what it did meanwhile; one that is gone does nothing.
    seen = live.look(
        50.0, {"mixed": {"a": sample(50.0, ended=250.0), "b": sample(50.0, ended=130.0)}}
    ).observation
    assert seen.traffic.requests == 6.0


def test_nobody_is_drained_for_what_is_not_counted_yet() -> None:
    live = collector()
    assert not live.has_looked
    first = live.look(0.0, {"mixed": {"a": sample(0.0, ended=900.0)}}).observation
    assert first.history.tolist() == [[0.0, 0.0, 0.0]]
    later = live.look(10.0, {"mixed": {"a": sample(10.0, ended=950.0)}}).observation
    assert later.history[:, 0].tolist() == [5.0]  # no rise from nothing


def test_a_start_is_learned_from_what_is_seen() -> None:
    starts = ReplicaStarts(120.0)
    starts.looked(0.0, 1)
    starts.ordered(0.0, 1)
    for number, took in enumerate((50.0, 60.0, 70.0)):
        begin = 1_000.0 * number
        starts.ordered(begin, number + 2)
        assert starts.still_need(begin + 10.0) == (starts.seconds - 10.0,)
        starts.looked(begin + took, number + 2)
    assert starts.seconds == 60.0


def test_a_replica_that_comes_back_says_nothing_of_new_ones() -> None:
    starts = ReplicaStarts(120.0)
    starts.looked(0.0, 2)
    starts.ordered(0.0, 2)
    starts.looked(10.0, 1)
    assert len(starts.still_need(10.0)) == 1
    starts.looked(20.0, 2)
    assert (starts.seen, starts.seconds) == ((), 120.0)


def test_what_never_comes_is_given_up() -> None:
    starts = ReplicaStarts(100.0)
    starts.looked(0.0, 1)
    starts.ordered(0.0, 2)
    assert starts.still_need(299.0) == (0.0,)
    assert starts.still_need(301.0) == ()


def test_cold_replicas_do_not_say_what_one_can_do() -> None:
    live = collector()
    look(live, 0.0, a=sample(0.0))
    look(live, 10.0, a=sample(10.0), b=sample(10.0))
    live.look(20.0, {"mixed": {"a": sample(20.0), "b": sample(20.0, prompt_tokens=5e6)}})
    seen = live.look(30.0, {"mixed": {"a": sample(30.0), "b": sample(30.0, prompt_tokens=9e6)}})
    assert seen.observation.abilities == (ABILITY,)
    seen = live.look(100.0, {"mixed": {"a": sample(100.0), "b": sample(100.0, prompt_tokens=9e6 + 7e5 * 2)}})
    assert seen.observation.abilities[0].prompt_tokens == ABILITY.prompt_tokens
    seen = live.look(
        110.0, {"mixed": {"a": sample(110.0), "b": sample(110.0, prompt_tokens=9e6 + 14e5 + 4e5)}}
    )
    assert seen.observation.abilities[0].prompt_tokens == pytest.approx(40_000.0)


def test_it_sees_what_the_collector_of_the_simulator_sees() -> None:
    """One run, looked at from inside and through the metrics that it exposes."""
    pytest.importorskip("prometheus_client", reason="the exporter needs the extra `serve`")
    from proreus.serving.scaler.prometheus_text import read_text
    from proreus.worlds.inference.exporter.fleet import SimulatedFleet

    base = PRESETS["colocated"]
    scenario = replace(
        base,
        load_=replace(base.load_, seconds=200.0, rate=25.0, urgent=1.0),
        control=replace(base.control, start=starting_within(45.0)),
    )
    fleet = SimulatedFleet(scenario, scenario.load(0))
    inside = Collector(fleet.cluster, scenario.control)
    live = LiveCollector(LiveOptions({"mixed": ABILITY}, scenario.control.limits, start_seconds=45.0))
    pending: list[tuple[int, int]] = []
    for step in range(1, 20):
        fleet.advance(10.0 * step)
        readings: dict[str, Reading] = {}
        for place in range(fleet.places):
            text = fleet.metrics(place, "mixed")
            readings[str(place)] = Absent() if text is None else read_text(text.decode(), fleet.now)
        live_look, true = live.look(fleet.now, {"mixed": readings}), inside.look()
        seen, pool = live_look.observation, true.pools[0]
        mine = seen.pools[0]
        assert (mine.active, mine.waiting, mine.running) == (pool.active, pool.waiting, pool.running)
        assert len(mine.starting) == len(pool.starting)
        assert mine.kv_use == pytest.approx(pool.kv_use)
        assert mine.starting == pytest.approx(pool.starting)
        pending.append((mine.pending_tokens, pool.pending_tokens))
        if step > 1 and not pool.draining:
            assert seen.traffic.requests == pytest.approx(true.traffic.requests)
            assert seen.traffic.ended == true.traffic.ended
            assert seen.traffic.ttft == pytest.approx(true.traffic.ttft)
            assert live_look.met.low - 1e-9 <= true.traffic.met <= live_look.met.high + 1e-9
        if step == 5:
            fleet.scale("mixed", 6)
            live.ordered(fleet.now, {"mixed": 6})
        elif step == 1:
            live.ordered(fleet.now, {"mixed": fleet.replicas("mixed")})
    # By the usual prompt, where the simulator knows each; long ones are computed longer.
    guessed, planned = np.array(pending, dtype=float).sum(axis=0)
    assert 0.4 * planned < guessed < 1.6 * planned
    assert live.starts["mixed"].seconds == pytest.approx(50.0)  # seen at the first look behind 45 s
