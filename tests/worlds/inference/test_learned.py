"""The learned controller: bounded whatever its weights are, legal at every decision, and why it does so."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.model.errors import InputError
from proreus.policies.checkpoint import Card, Checkpoint, save_checkpoint
from proreus.worlds.inference.encoding.pools import VERSION
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.knobs import (
    BIAS,
    INPUTS,
    KNOBS,
    LENDING,
    PATIENCE,
    USE,
    WEIGHT,
    Knobs,
    first_knobs,
    knobs_of,
)
from proreus.worlds.inference.policies.learned import Learned, Need, shared_out
from proreus.worlds.inference.training.weight_vector import SIZE, tensors_of
from tests.worlds.inference.sights import brief, look_at


def drawn(seed: int, width: float) -> Knobs:
    draw = np.random.default_rng(seed)
    return Knobs(draw.normal(0, width, (len(KNOBS), INPUTS)), draw.normal(0, width, len(KNOBS)))


@given(st.integers(0, 1000), st.sampled_from([0.1, 10.0, 1e6]))
def test_figures_stay_within_their_bounds(seed: int, width: float) -> None:
    draw = np.random.default_rng(seed)
    row, context = draw.normal(0, 5, INPUTS)[:14], draw.normal(0, 5, INPUTS)[14:]
    for knob, value in drawn(seed, width).of(row.astype(np.float32), context.astype(np.float32)).items():
        assert knob.low <= value <= knob.high


def test_without_weights_it_is_the_plan_that_training_starts_from() -> None:
    knobs = knobs_of(tensors_of(np.zeros(SIZE)))
    first = knobs_of(first_knobs())
    np.testing.assert_array_equal(knobs.weight, first.weight)
    row, context = np.zeros(14, dtype=np.float32), np.zeros(INPUTS - 14, dtype=np.float32)
    for knob, value in first.of(row, context).items():
        assert value == pytest.approx(knob.start, rel=1e-5)


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["surge", "colocated", "spot"]))
def test_every_decision_is_legal_whatever_the_weights(seed: int, name: str) -> None:
    scenario = brief(name, 300.0, 30.0)
    run, policy = scenario.start(scenario.load(seed), seed), Learned("any", drawn(seed, 3.0))
    while (seen := run.next_decision()) is not None:
        change = policy.decide(seen)
        assert seen.refusal(change) == "" and seen.action_mask()[seen.steps.number(change)]
        run.apply(change)


def test_one_is_drained_only_after_the_others_could_have_borne_the_load_for_some_time() -> None:
    tensors = first_knobs()
    tensors[BIAS][KNOBS.index(PATIENCE)] = replace(PATIENCE, start=100.0).raised
    policy, seen = Learned("patient", knobs_of(tensors)), look_at("steady")
    history = np.tile(np.array([5.0, 5_000.0, 1_000.0]), (60, 1))
    drains = []
    for step in range(15):
        busy = np.vstack([history, history[:1] * (12.0 if step == 0 else 1.0)])
        change = policy.decide(replace(seen, now=600.0 + 10.0 * step, history=busy))
        drains.append(min(change.prompt, change.token) < 0)
    assert not any(drains[:10]) and any(drains[10:])


def test_pools_are_rounded_up_together_where_one_lends() -> None:
    seen = look_at("steady")  # three and three

    def needs(prompt: float, token: float) -> dict[str, Need]:
        return {
            "prompt": Need(prompt, max(math.ceil(prompt - 0.8), 1), {}),
            "token": Need(token, math.ceil(token), {}),
        }

    assert shared_out(seen, needs(2.4, 1.5), 4) == {"prompt": 2, "token": 2}  # type: ignore[arg-type]
    assert shared_out(seen, needs(4.2, 3.6), 8) == {"prompt": 4, "token": 4}  # type: ignore[arg-type]
    kept = shared_out(seen, needs(2.9, 2.9), 6)  # type: ignore[arg-type]
    assert kept == {"prompt": 3, "token": 3}


def test_a_pool_that_is_loaded_unevenly_swaps_an_instance() -> None:
    seen = look_at("steady")
    crowded = tuple(
        replace(pool, waiting=200, kv_use=0.35) if pool.role == "token" else pool for pool in seen.pools
    )
    policy = Learned("evens", knobs_of(first_knobs()))
    uneven = replace(seen, pools=crowded)
    assert policy.decide(uneven).migrate == -1
    assert policy.decide(replace(uneven, now=uneven.now + 10.0)).migrate >= 0, "it waits for what it did"


def test_it_says_what_it_saw_and_why_so_many() -> None:
    policy, seen = Learned("told", knobs_of(first_knobs())), look_at("steady")
    explanation = policy.explain(seen)
    assert explanation.decision == policy.fresh(0).decide(seen)
    for verdict in explanation.verdicts:
        assert {"arriving", "forecast", "margin", "backlog", "use", "in all"} <= set(verdict.scores)


def test_a_higher_use_takes_fewer_instances() -> None:
    seen = look_at("surge")
    busy = replace(seen, history=np.tile(np.array([60.0, 72_000.0, 12_800.0]), (30, 1)))
    found = []
    for use in (0.5, 0.95):
        tensors = first_knobs()
        tensors[BIAS][KNOBS.index(USE)] = replace(USE, start=use).raised
        wanted = Learned("use", knobs_of(tensors)).targets(busy)
        found.append(sum(target.count for target in wanted.values()))
    assert found[0] > found[1]


def test_lending_is_for_prompts() -> None:
    figures = knobs_of(first_knobs())
    row = np.zeros(14, dtype=np.float32)
    context = np.zeros(INPUTS - 14, dtype=np.float32)
    row[12] = 1.0
    assert figures.of(row, context)[LENDING] > 0.5
    row[12:] = (0.0, 1.0)
    assert figures.of(row, context)[LENDING] < 0.1


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    tensors = first_knobs()
    tensors[WEIGHT][0, 0] = np.nan
    save_checkpoint(tmp_path / "bad", Checkpoint(Card("inference", "knobs", "es", VERSION), tensors))
    with pytest.raises(InputError, match=r"knobs\.weight: needs finite numbers"):
        POLICIES.make(str(tmp_path / "bad"))
