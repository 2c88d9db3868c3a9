"""The rules of serving systems by hand: the figures that their sources give, and what follows from them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.worlds.inference.model.decision import NOTHING, Scale
from proreus.worlds.inference.policies.catalogue import POLICIES, InferenceOptions
from proreus.worlds.inference.policies.rules.chiron import Chiron
from proreus.worlds.inference.policies.rules.dynamo import Dynamo, PassTimes
from proreus.worlds.inference.policies.rules.heteroscale import HeteroScale
from proreus.worlds.inference.policies.rules.llm_d import Wva
from proreus.worlds.inference.policies.rules.predictive import Predictive
from proreus.worlds.inference.policies.rules.sageserve import Prices, SageServe, cheapest_plan
from proreus.worlds.inference.policies.rules.tokenscale import TokenScale
from tests.worlds.inference.looks import CALM, pool, seen


def test_wva_adds_one_where_little_is_spare_and_waits_for_it() -> None:
    rule = Wva("wva")
    assert rule.decide(seen(pool("prompt"), pool("token", kv_use=0.71))) == Scale(token=1)
    assert rule.decide(seen(pool("prompt", waiting=9), pool("token", kv_use=0.69))) == Scale(prompt=1)
    pending = pool("token", kv_use=0.9, starting=(60.0,))
    assert rule.decide(seen(pool("prompt"), pending)).token == 0, "one is on its way"


def test_wva_drops_one_only_where_the_others_could_take_its_load() -> None:
    rule, busy = Wva("wva"), pool("token", kv_use=0.53)
    for now in (100.0, 340.0, 600.0):
        assert rule.decide(seen(pool("prompt", kv_use=0.6), busy, now=now)).token == 0, "0.53 * 4 / 3 > 0.7"
    idle = pool("token", kv_use=0.5)
    assert rule.decide(seen(pool("prompt", kv_use=0.6), idle, now=700.0)).token == 0
    assert rule.decide(seen(pool("prompt", kv_use=0.6), idle, now=940.0)).token == -1


def test_heteroscale_moves_both_pools_by_tokens_and_panics_when_they_are_late() -> None:
    rule = HeteroScale("heteroscale")
    calm = seen(pool("prompt", 2), pool("token", 3), load=1.0, intervals=30)
    assert rule.decide(calm) == NOTHING, "1 and 2 instances of work at seven tenths, a tenth of tolerance"
    doubled = replace(calm, history=np.vstack([calm.history, 2.0 * calm.history[:6]]))
    assert rule.decide(doubled) == Scale(prompt=1, token=3)
    late = replace(calm, traffic=replace(CALM, tbt_slack=1.3))
    assert rule.decide(late) == Scale(prompt=1, token=1)
    again = replace(late, pools=(pool("prompt", 2, starting=(100.0,)), pool("token", 3)))
    assert rule.decide(again) == NOTHING, "the panic's instances are on their way"


def test_tokenscale_lends_a_decoder_in_a_burst_and_takes_it_back() -> None:
    rule = TokenScale("tokenscale")
    calm = seen(pool("prompt", 2, pending_tokens=0), pool("token", 4), intervals=6)
    assert rule.decide(calm) == NOTHING, "2 prompt and 3 token instances, and one that converts"
    burst = seen(pool("prompt", 2, pending_tokens=25_000), pool("token", 4), now=110.0, intervals=6)
    assert rule.decide(burst) == Scale(migrate=-1)
    over = seen(pool("prompt", 3, pending_tokens=0), pool("token", 3), now=120.0, intervals=6)
    assert rule.decide(over) == Scale(migrate=1)


def test_chiron_keeps_six_in_ten_busy_and_lets_batch_requests_wait() -> None:
    rule = Chiron("chiron")
    assert rule.decide(seen(pool("mixed", 3, pending_tokens=0))).mixed == 2, "3 instances of work"
    assert rule.decide(seen(pool("mixed", 5, pending_tokens=0))) == NOTHING
    assert rule.decide(seen(pool("mixed", 6, pending_tokens=0))).mixed == -1
    waiting = pool("mixed", 5, pending_tokens=1_000_000)
    assert rule.decide(seen(waiting)) == NOTHING, "20 s of prompts may wait"
    assert rule.decide(seen(replace(waiting, pending_tokens=2_000_000))).mixed == 1


def test_pass_times_are_a_line_that_does_not_fall() -> None:
    times = PassTimes()
    for load in range(4):
        times.learn(float(load), 1.0 + 2.0 * load)
    assert times.at(10.0) is None, "four are too few"
    times.learn(4.0, 9.0)
    assert times.at(10.0) == pytest.approx(21.0)
    falling = PassTimes()
    for load in range(6):
        falling.learn(float(load), 5.0 - load)
    assert falling.at(100.0) == pytest.approx(2.5)


def test_dynamo_counts_the_queue_and_what_survivors_take() -> None:
    rule = Dynamo("dynamo")

    def look(now: float, queued: float, ttft: float, active: int = 4) -> Scale:
        pools = (pool("prompt", active, pending_tokens=round(queued * active * 10_000)), pool("token", 4))
        observed = seen(*pools, now=now, load=0.5, intervals=30)
        return rule.decide(replace(observed, traffic=replace(CALM, ttft=ttft)))

    for step in range(8):
        look(100.0 + 10 * step, 0.1 * (step % 4), 0.1 + 0.1 * ((step - 1) % 4))
    assert look(200.0, 2.0, 0.4).prompt == 1, "what waits makes the next first token late"
    assert look(210.0, 0.24, 2.1).prompt == 0, "0.34 s now, above 0.4 with three instances"
    assert look(220.0, 0.1, 0.34).prompt == -1


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 6), st.integers(1, 6)),
    st.tuples(st.floats(0.0, 7.0), st.floats(0.0, 7.0)),
    st.integers(2, 9),
)
def test_the_plan_is_the_cheapest_there_is(
    now: tuple[int, int], needs: tuple[float, float], most: int
) -> None:
    prices = Prices()

    def cost(counts: tuple[int, int]) -> tuple[float, float]:
        changes = [count - before for count, before in zip(counts, now, strict=True)]
        moved = min(abs(change) for change in changes) if changes[0] * changes[1] < 0 else 0
        starts = sum(max(change, 0) for change in changes) - moved
        missing = sum(max(np.ceil(need) - count, 0) for count, need in zip(counts, needs, strict=True))
        price = prices.instance * sum(counts) + prices.start * starts + prices.migration * moved
        return missing, round(price, 9)

    found = cheapest_plan(now, needs, 1, most, prices)
    assert len(found) == 2 and sum(found) <= most and min(found) >= 1
    every = [counts for counts in product(range(1, 9), range(1, 9)) if sum(counts) <= most]
    assert cost((found[0], found[1])) == min(cost(counts) for counts in every)


def test_sageserve_grows_by_plan_and_shrinks_as_use_allows() -> None:
    rule = SageServe("sageserve")
    quiet = seen(pool("prompt", 2, pending_tokens=0), pool("token", 2, kv_use=0.4), intervals=40)
    assert rule.decide(quiet) == Scale(token=1), "two instances of work at seven tenths"
    full = seen(pool("prompt", 2, pending_tokens=0), pool("token", 3, kv_use=0.6), now=110.0, intervals=40)
    assert rule.decide(full) == Scale(token=1), "one more than planned"
    many = seen(pool("prompt", 2, pending_tokens=0), pool("token", 5, kv_use=0.3), now=120.0, intervals=40)
    assert rule.decide(many) == NOTHING
    idle = seen(pool("prompt", 2, pending_tokens=0), pool("token", 5, kv_use=0.2), now=130.0, intervals=40)
    assert rule.decide(idle) == Scale(token=-2)


def test_predictive_prepares_for_what_comes_when_a_start_is_over() -> None:
    rule = Predictive("predictive")
    line = np.linspace(0.5, 2.0, 60)[:, None] * np.array([[10.0, 20_000.0, 2_000.0]])
    rising = replace(seen(pool("prompt", 5), pool("token", 5)), history=line)
    falling = replace(rising, history=line[::-1])
    assert rule.targets(rising)["prompt"].count > 5
    assert rule.targets(rising)["prompt"].because["forecast"] > 4.0
    later = replace(falling, now=400.0)
    assert rule.targets(later)["prompt"].count < 5, "what was needed lately is forgotten"


def test_predictive_does_not_drop_what_it_needed_a_moment_ago() -> None:
    rule = Predictive("predictive")
    busy = seen(pool("prompt", 9), pool("token", 9), load=4.0, intervals=40)
    quiet = seen(pool("prompt", 9), pool("token", 9), now=110.0, load=1.0, intervals=40)
    needed = rule.targets(busy)["prompt"].count
    assert rule.targets(quiet)["prompt"].count == min(needed, 9) > 2
    assert rule.targets(replace(quiet, now=900.0))["prompt"].count < 5


def test_predictive_can_expect_what_learned_forecasts() -> None:
    rule = POLICIES.make("predictive", InferenceOptions(forecast="quantiles"))
    assert isinstance(rule, Predictive)
    line = np.linspace(0.5, 2.0, 60)[:, None] * np.array([[10.0, 20_000.0, 2_000.0]])
    rising = replace(seen(pool("prompt", 5), pool("token", 5)), history=line)
    falling = replace(rising, now=400.0, history=line[::-1])
    up, down = (rule.fresh(0).targets(look)["prompt"] for look in (rising, falling))
    assert up.count > 5 > down.count
    rises, falls = (target.because["forecast"] / target.because["work now"] for target in (up, down))
    assert rises > falls
    assert up.because["likely at most"] > max(up.because["forecast"], up.because["work now"])
    assert up.because != Predictive("predictive").targets(rising)["prompt"].because
    silent = replace(rising, history=np.zeros((60, 3)))
    assert rule.fresh(0).targets(silent)["prompt"].count == 1
