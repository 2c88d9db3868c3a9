"""What a judgement makes of a candidate; no I/O."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from proreus.engine.controllers.promotion.core import (
    Evidence,
    GateOptions,
    LiveEvidence,
    begun,
    judged,
    lived,
)
from proreus.engine.objects.promotions import (
    Promotion,
    Stage,
    deciding,
    in_share,
    read_promotions,
    ways,
    written,
)
from proreus.engine.objects.scheduler_config import Chosen
from proreus.model.cluster_trace import PodTrace
from proreus.model.duel import Duel
from proreus.model.pod import PodSpec
from proreus.model.resources import Resources
from proreus.policies.promotion_rule import CandidateGain, rule_on

OPTIONS = GateOptions(least_pods=10, least_each=5)
CHOSEN = Chosen("kube", shadow="best_fit", candidate="runs/x", share=0.25)
BETTER = ((10.0, 5.0), (12.0, 6.5), (8.0, 4.2))
WORSE = tuple((other, mine) for mine, other in BETTER)
UNSURE = ((10.0, 5.0), (5.0, 10.0), (10.0, 9.0))
SAME = ((10.0, 10.0),) * 3
NO_EVICTIONS = ((0.0, 0.0),) * 3
FIVE_LONG, FIVE_SHORT = (30.0, 31.0, 29.0, 30.5, 30.2), (1.0, 1.5, 0.5, 1.2, 0.8)


def at(stage: Stage) -> Promotion:
    return msgspec.structs.replace(begun(CHOSEN, 100.0), stage=stage)


def evidence(
    waits: Any = BETTER, pods: int = 50, evictions: Any = NO_EVICTIONS, live: LiveEvidence | None = None
) -> Evidence:
    return Evidence(Duel(pods, waits, evictions), live or LiveEvidence())


def after(stage: Stage, evidence: Evidence) -> Promotion:
    return judged(at(stage), evidence, 200.0, OPTIONS)


def test_a_better_one_goes_on_step_by_step() -> None:
    promotion = after("shadow", evidence())
    assert (promotion.stage, promotion.stage_since, promotion.judged) == ("share", 200.0, 200.0)
    assert promotion.told == (
        "better: mean wait 5.23 s, not 10 s (-48 % of the larger, 95 % interval -52 % to -44 %), "
        "in a replay of 50 pods"
    )
    waiting = after("share", evidence())
    assert waiting.stage == "share", "nobody of the share has been seen yet"
    assert after("share", evidence(live=LiveEvidence(FIVE_SHORT, FIVE_SHORT))).stage == "all"
    assert after("all", evidence()).stage == "all"


@pytest.mark.parametrize("stage", ["shadow", "share", "all"])
def test_a_worse_one_is_refused_wherever_it_stands(stage: Stage) -> None:
    assert after(stage, evidence(WORSE)).stage == "refused"
    more = ((0.1, 0.5), (0.1, 0.6), (0.2, 0.7))
    assert after(stage, evidence(evictions=more)).stage == "refused", "waits bought with evictions"
    slow = LiveEvidence(decided=10, fallbacks=5)
    assert after(stage, evidence(live=slow)).told.startswith("too slow, unsure or wrong in 50%")


def test_who_was_refused_stays_refused() -> None:
    assert after("refused", evidence()).stage == "refused"


@pytest.mark.parametrize("waits", [UNSURE, SAME, ((math.nan, 1.0),) * 3])
@pytest.mark.parametrize("stage", ["shadow", "share"])
def test_who_cannot_be_told_apart_stays_where_it_is(stage: Stage, waits: Any) -> None:
    live = LiveEvidence(FIVE_SHORT, FIVE_SHORT)
    assert after(stage, evidence(waits, live=live)).stage == stage


def test_too_few_pods_say_nothing() -> None:
    assert after("shadow", evidence(WORSE, pods=9)).stage == "shadow"
    assert after("shadow", Evidence(Duel(0), LiveEvidence())).stage == "shadow"


def test_a_share_that_fares_worse_in_life_is_refused_whatever_the_replay_says() -> None:
    assert after("share", evidence(live=LiveEvidence(FIVE_LONG, FIVE_SHORT))).stage == "refused"
    assert after("share", evidence(live=LiveEvidence(FIVE_LONG[:4], FIVE_SHORT))).stage == "share", (
        "too few of them"
    )


def pod(uid: str, created: float, bound: float | None, policy: str = "", fallback: str = "") -> PodTrace:
    return PodTrace(uid, uid, PodSpec(Resources()), created, bound=bound, policy=policy, fallback=fallback)


def test_pods_of_a_share_are_told_from_the_others_by_their_uids() -> None:
    pods = [
        pod(f"u{n}", 100.0 + n, 101.0 + n, "runs/x", "deadline" if n % 10 == 0 else "") for n in range(100)
    ]
    waiting, old = pod("w", 150.0, None), pod("old", 50.0, 60.0, "runs/x")
    gave_up = PodTrace("g", "g", PodSpec(Resources()), 120.0, ended=130.0, end="deleted")
    live_evidence = lived([*pods, waiting, old, gave_up], CHOSEN, 100.0, 250.0)
    assert len(live_evidence.share) + len(live_evidence.rest) == 101
    assert 10 < len(live_evidence.share) < 45
    assert max((*live_evidence.share, *live_evidence.rest)) == 100.0, "who still waits has waited until now"
    assert (live_evidence.decided, live_evidence.fallbacks) == (100, 10)


def test_a_share_is_what_it_says_and_the_same_for_everybody() -> None:
    uids = [f"pod-{n}" for n in range(4000)]
    assert abs(sum(in_share(uid, 0.25) for uid in uids) / 4000 - 0.25) < 0.03
    assert all(in_share(uid, 0.5) for uid in uids if in_share(uid, 0.25)), (
        "a larger share has the smaller one's"
    )


def test_who_decides_follows_from_the_stage_and_the_uid() -> None:
    mine = next(f"u{n}" for n in range(99) if in_share(f"u{n}", 0.25))
    other = next(f"u{n}" for n in range(99) if not in_share(f"u{n}", 0.25))
    present, taken_up = Chosen("kube", "runs/x"), Chosen("runs/x", "kube")
    for stage, expected in {
        "shadow": (present, present),
        "share": (taken_up, present),
        "all": (taken_up, taken_up),
        "refused": (Chosen("kube", "best_fit"), Chosen("kube", "best_fit")),
    }.items():
        found = tuple(deciding(CHOSEN, at(stage), uid) for uid in (mine, other))  # type: ignore[arg-type]
        assert found == expected
        assert set(found) <= set(ways(CHOSEN))
    assert deciding(CHOSEN, None, mine) == present
    stale = msgspec.structs.replace(at("all"), candidate="another")
    assert deciding(CHOSEN, stale, mine) == present, "what was found of another candidate says nothing"
    assert deciding(Chosen("kube", "best_fit"), at("all"), mine) == Chosen("kube", "best_fit")


def test_the_state_comes_back_from_its_config_map() -> None:
    state = {"default-scheduler": after("shadow", evidence())}
    assert read_promotions({"data": written(state)}) == state
    assert read_promotions({"data": {**written(state), "broken": "{"}}) == state
    assert read_promotions(None) == {}


@pytest.mark.parametrize(
    ("found", "ruling"),
    [
        (CandidateGain(1.0, 0.5, 1.5), "not worse"),
        (CandidateGain(0.0, 0.0, 0.0), "not worse"),
        (CandidateGain(-0.1, -1.0, 0.9), "not told apart"),
        (CandidateGain(0.1, -1.0, 1.2), "too uncertain"),
        (CandidateGain(math.nan, 0.0, 1.0), "cannot be compared"),
        (CandidateGain(math.inf, 0.0, 1.0), "cannot be compared"),
    ],
)
def test_what_a_difference_means(found: CandidateGain, ruling: str) -> None:
    assert rule_on(found) == ruling
    assert rule_on(CandidateGain(0.1, -0.2, 0.4), worst=-0.25) == "not worse"
