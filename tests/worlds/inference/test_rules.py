"""Controllers by hand: what they see, what follows, and that no limit is asked to break."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from proreus.worlds.inference.model.decision import NOTHING, Scale
from proreus.worlds.inference.model.start_up import Limits
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.rules.aibrix import Apa
from proreus.worlds.inference.policies.rules.controller import told
from proreus.worlds.inference.policies.rules.knative import Kpa
from proreus.worlds.inference.policies.rules.oracle import Oracle
from proreus.worlds.inference.policies.rules.threshold import Static, Threshold
from tests.worlds.inference.looks import pool, seen


def test_static_changes_nothing() -> None:
    assert Static("static").decide(seen(pool("prompt"), pool("token", kv_use=1.0))) == NOTHING


def test_threshold_grows_at_once_and_shrinks_after_a_minute() -> None:
    rule = Threshold("threshold")
    assert rule.decide(seen(pool("prompt"), pool("token", kv_use=0.9))) == Scale(token=1)
    starting = pool("token", kv_use=0.9, starting=(60.0,))
    assert rule.decide(seen(pool("prompt"), starting)) == NOTHING, "what is ordered is waited for"
    quiet = pool("token", kv_use=0.1)
    assert rule.decide(seen(pool("prompt"), quiet, now=200.0)) == NOTHING
    assert rule.decide(seen(pool("prompt"), quiet, now=250.0)) == NOTHING
    assert rule.decide(seen(pool("prompt"), quiet, now=260.0)) == Scale(token=-1)
    assert rule.decide(seen(pool("prompt"), quiet, now=270.0)) == NOTHING


def test_apa_goes_in_proportion_and_rests_before_it_shrinks() -> None:
    rule = Apa("apa")
    assert rule.decide(seen(pool("prompt"), pool("token", kv_use=0.9))) == Scale(token=2)
    within = pool("token", kv_use=0.62)
    assert rule.decide(seen(pool("prompt"), within, now=110.0)).token == 0
    quiet = pool("token", kv_use=0.3)
    assert rule.decide(seen(pool("prompt"), quiet, now=390.0)).token == 0
    assert rule.decide(seen(pool("prompt"), quiet, now=400.0)).token == -2


def test_kpa_panics_over_seconds_and_calms_down_over_a_minute() -> None:
    rule = Kpa("kpa")
    each = 100_000.0 / 1_200.0 * 0.7  # tokens of a request are 1,000 + 200
    calm = pool("token", running=int(3.5 * each))
    assert rule.decide(seen(pool("prompt"), calm)).token == 0
    crowd = pool("token", running=int(9.5 * each))
    assert rule.decide(seen(pool("prompt"), crowd, now=110.0)).token == 5, "a step at most"
    after = pool("token", active=9, running=int(3.5 * each))
    assert rule.decide(seen(pool("prompt"), after, now=140.0)).token >= 0, "nobody goes during a panic"
    assert rule.decide(seen(pool("prompt"), after, now=240.0)).token < 0


def test_the_oracle_is_ready_for_what_will_come() -> None:
    scale = Oracle("oracle").decide(seen(pool("prompt", pending_tokens=0), pool("token")))
    assert scale == Scale(prompt=4, token=2), "7 and 2.8 instances of work"
    assert Oracle("oracle").decide(replace(seen(pool("prompt"), pool("token")), future=None)) == NOTHING


@pytest.mark.parametrize("name", POLICIES.rules)
def test_no_rule_asks_for_what_limits_forbid(name: str) -> None:
    draw = np.random.default_rng(0)
    for _ in range(200):
        pools = tuple(
            pool(
                role,
                int(draw.integers(0, 9)),
                kv_use=float(draw.random()),
                running=int(draw.integers(0, 2_000)),
                pending_tokens=int(draw.integers(0, 200_000)),
                draining=int(draw.integers(0, 3)),
                starting=tuple(float(one) for one in range(int(draw.integers(0, 3)))),
            )
            for role in ("prompt", "token")
        )
        looked = seen(*pools, limits=Limits(least=1, most=8, most_in_total=12))
        change = POLICIES.make(name).decide(looked)
        assert looked.refusal(change) == ""
        assert looked.action_mask()[looked.steps.number(change)]


def test_the_mask_says_what_refusals_say() -> None:
    draw = np.random.default_rng(1)
    for _ in range(20):
        pools = tuple(pool(role, int(draw.integers(0, 6))) for role in ("prompt", "token"))
        looked = seen(*pools, limits=Limits(least=int(draw.integers(0, 3)), most=5, most_in_total=8))
        expected = [not looked.refusal(looked.steps.action(number)) for number in range(len(looked.steps))]
        assert looked.action_mask().tolist() == expected


def test_reasons_change_nothing_and_say_what_was_seen() -> None:
    for name in POLICIES.rules:
        rule, looked = POLICIES.make(name), seen(pool("prompt"), pool("token", kv_use=0.95))
        reasons = rule.explain(looked)  # type: ignore[attr-defined]
        assert reasons.decision == rule.decide(looked)
        places = [verdict.place for verdict in reasons.verdicts]
        assert places[:2] == ["prompt pool", "token pool"]
        assert len(places) == 2 or name == "planner"  # which lists its candidates, too
        assert all(verdict.scores for verdict in reasons.verdicts) and "10.0 requests/s" in reasons.note


def test_changes_in_words() -> None:
    assert told(Scale(prompt=2, token=-1, migrate=-3)) == (
        "starts 2 prompt, drains 1 token, migrates 3 from token to prompt"
    )
    assert told(NOTHING) == "changes nothing"
