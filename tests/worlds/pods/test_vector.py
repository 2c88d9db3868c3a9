"""Models over the k8s simulator's vector: right chances, reproducible draws, masks, any number of nodes."""

from __future__ import annotations

import json
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from proreus.model.errors import InputError
from proreus.policies.checkpoint import CARD, Checkpoint, save_checkpoint
from proreus.worlds.pods.policies.vector.model import (
    PRETRAINED_VECTOR,
    VECTOR_ENCODING,
    VectorModel,
    VectorScorer,
    checkpoint_of,
    draw_of,
    fresh_scorer,
    load_vector_model,
    refusal,
)
from proreus.worlds.pods.policies.vector.scorer import LAYOUT, MEMORY, PARAMETERS, part
from tests.oracles.vector_networks import network_of
from tests.worlds.pods.vector_models import fresh_mlp


def a_scorer(nodes: int = 0, seed: int = 0) -> VectorScorer:
    """A scorer with weights well away from zero; with a memory of so many nodes."""
    random = np.random.default_rng(seed)
    parameters = fresh_scorer(seed).parameters + random.normal(0.0, 0.3, PARAMETERS).astype(np.float32)
    memory = random.normal(size=(nodes, MEMORY)).astype(np.float32)
    return VectorScorer(parameters, memory if nodes else None)


@lru_cache
def an_mlp(nodes: int) -> VectorModel:
    return fresh_mlp(2 * nodes + 2, 2 * nodes + 2, 3)


def models(nodes: int) -> list[VectorModel]:
    """One of each kind that takes vectors of so many nodes with a task."""
    return [a_scorer(), a_scorer(nodes), an_mlp(nodes)]


def reference_chances(model: VectorModel, states: NDArray[Any], actions: int) -> NDArray[Any]:
    logits, _ = network_of(model.kind, model.tensors)(torch.from_numpy(states), actions)
    return torch.softmax(logits.double(), 1).detach().numpy()


@settings(max_examples=40)
@given(nodes=st.integers(1, 70), with_task=st.booleans(), seed=st.integers(0, 1000))
def test_chances_are_those_of_the_torch_network(nodes: int, with_task: bool, seed: int) -> None:
    random = np.random.default_rng(seed)
    states = random.random((3, 2 * nodes + 2 * with_task)) * random.choice([0.0, 1.0, 3.0])
    actions = 2 * nodes + 2
    for model in (a_scorer(seed=seed), a_scorer(nodes, seed)):
        check_chances(model, states, actions)


def check_chances(model: VectorModel, states: NDArray[Any], actions: int) -> None:
    assert model.accepts(states.shape[1], actions) is None
    chances = np.array([model.chances(state, actions, None) for state in states])
    np.testing.assert_allclose(chances, reference_chances(model, states, actions), rtol=2e-3, atol=1e-6)
    np.testing.assert_allclose(chances.sum(1), 1.0, atol=1e-5)


@pytest.mark.parametrize(("length", "actions"), [(14, 16), (16, 16), (100, 102)])
def test_chances_are_those_of_the_documents_network(length: int, actions: int) -> None:
    check_chances(fresh_mlp(length, actions, 1), np.random.default_rng(2).random((5, length)), actions)


@settings(max_examples=40)
@given(nodes=st.integers(2, 50), seed=st.integers(0, 1000), data=st.data())
def test_nodes_that_change_places_change_chances_with_them(
    nodes: int, seed: int, data: st.DataObject
) -> None:
    """One set of weights for every node: a scorer without a memory does not care about the order."""
    random = np.random.default_rng(seed)
    state = random.random(2 * nodes + 2)
    order = np.array(data.draw(st.permutations(range(nodes))))
    moved = np.concatenate((state[: 2 * nodes].reshape(nodes, 2)[order].ravel(), state[2 * nodes :]))
    model, actions = a_scorer(seed=seed), 2 * nodes + 2
    before, after = model.chances(state, actions, None), model.chances(moved, actions, None)
    place, preempt = before[:nodes][order], before[nodes : 2 * nodes][order]
    np.testing.assert_allclose(after, [*place, *preempt, *before[2 * nodes :]], rtol=1e-3, atol=1e-7)


@settings(max_examples=60)
@given(nodes=st.sampled_from([1, 2, 7, 33]), seed=st.integers(0, 1000), data=st.data())
def test_a_decision_is_the_draw_of_its_chances(nodes: int, seed: int, data: st.DataObject) -> None:
    random = np.random.default_rng(seed)
    state, actions = random.random(2 * nodes + 2), 2 * nodes + 2
    mask = random.random(actions) < 0.5
    mask[data.draw(st.integers(0, actions - 1))] = True
    draw = data.draw(st.floats(0.0, 1.0, exclude_max=True))
    for model in models(nodes):
        for allowed in (None, mask):
            chances = model.chances(state, actions, allowed)
            action, log_prob = model.decide(state, actions, allowed, draw)
            assert chances[action] > 0.0 and (allowed is None or allowed[action])
            assert log_prob == pytest.approx(math.log(chances[action]), abs=1e-5)
            below, above = chances[:action].sum(), chances[: action + 1].sum()
            assert below - 1e-5 <= draw <= above + 1e-5
            best, log_best = model.decide(state, actions, allowed, -1.0)
            assert chances[best] == chances.max() and best == int(np.argmax(chances))
            assert log_best == pytest.approx(math.log(chances[best]), abs=1e-5)
            if allowed is not None:
                assert (chances[~allowed] == 0.0).all() and chances.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("rows", [0, 1, 7, 1500])
def test_a_batch_is_its_rows_one_by_one(rows: int) -> None:
    nodes, random = 7, np.random.default_rng(5)
    actions = 2 * nodes + 2
    states, draws = random.random((rows, actions)), random.uniform(-0.5, 1.0, rows)
    masks = random.random((rows, actions)) < 0.5
    masks[:, -1] = True
    for model in models(nodes):
        for allowed in (None, masks):
            chosen, logs = model.decide_batch(states, actions, allowed, draws)
            assert len(chosen) == len(logs) == rows
            for k in range(0, rows, 37):
                mask = None if allowed is None else allowed[k]
                assert (chosen[k], logs[k]) == model.decide(states[k], actions, mask, float(draws[k]))


def test_drawn_actions_are_as_frequent_as_their_chances() -> None:
    model, state, actions = a_scorer(), np.linspace(0.0, 1.0, 16), 16
    states = np.repeat(state[None], 40_000, axis=0)
    chosen, _ = model.decide_batch(states, actions, None, np.random.default_rng(0).random(40_000))
    frequency = np.bincount(chosen, minlength=actions) / 40_000
    np.testing.assert_allclose(frequency, model.chances(state, actions, None), atol=0.01)


def test_equal_nodes_are_told_apart_by_their_order() -> None:
    state = np.zeros(16)
    place = fresh_scorer(0).parameters.copy()
    part(place, "place")[:] = 1.0
    assert VectorScorer(place).decide(state, 16, None, -1.0)[0] == 0
    mask = np.ones(16, dtype=np.bool_)
    mask[:3] = False
    assert VectorScorer(place).decide(state, 16, mask, -1.0)[0] == 3


@settings(max_examples=60)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=16, max_size=16))
def test_whatever_finite_numbers_come_the_chances_are_chances(values: list[float]) -> None:
    state = np.array(values)
    for model in models(7):
        chances = model.chances(state, 16, None)
        assert np.isfinite(chances).all() and chances.min() >= 0.0
        assert chances.sum() == pytest.approx(1.0, abs=1e-4)
        assert 0 <= model.decide(state, 16, None, draw_of(0, 1, state))[0] < 16


def test_the_draw_is_a_function_of_seed_version_and_state() -> None:
    random = np.random.default_rng(0)
    states = random.random((4000, 14))
    draws = np.array([draw_of(1, 2, state) for state in states])
    assert (draws == [draw_of(1, 2, state.copy()) for state in states]).all()
    assert ((draws >= 0.0) & (draws < 1.0)).all()
    for other in ((1, 3), (2, 2)):
        again = np.array([draw_of(*other, state) for state in states])
        assert (draws != again).all() and abs(np.corrcoef(draws, again)[0, 1]) < 0.06
    np.testing.assert_allclose(np.histogram(draws, 10, (0.0, 1.0))[0], 400, atol=100)
    zero = np.zeros(14)
    assert draw_of(0, 1, zero) == draw_of(0, 1, -zero) != draw_of(0, 1, np.zeros(16))
    one_bit = states[0].copy()
    one_bit[13] = np.nextafter(one_bit[13], 2.0)
    assert draw_of(1, 2, one_bit) != draws[0]
    assert 0.0 <= draw_of(-5, 2**62, zero) < 1.0


def test_lengths_that_do_not_belong_together_are_refused() -> None:
    assert refusal(14, 16) is None and refusal(16, 16) is None
    assert refusal(15, 16) == "state has length 15, not 14 or 16, as 16 actions (7 nodes) need"
    assert refusal(14, 15) == "action_dim 15 is not 2n + 2 for any number of nodes n"
    assert refusal(0, 2) is not None
    assert a_scorer(7).accepts(14, 16) is None
    assert a_scorer(7).accepts(18, 18) == "this model knows one cluster of 7 nodes, and is asked about 8"
    assert fresh_mlp(14, 16, 0).accepts(16, 16) == "this model takes 14 inputs and 16 actions, not 16 and 16"


def test_checkpoints_come_back_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    for k, model in enumerate(models(7)):
        folder = tmp_path / str(k)
        save_checkpoint(folder, checkpoint_of(model, "none", steps=5))
        back = load_vector_model(folder)
        state = np.linspace(0.0, 1.0, 16)
        assert (
            back.kind == model.kind
            and (back.chances(state, 16, None) == model.chances(state, 16, None)).all()
        )
    good = checkpoint_of(a_scorer(), "none")
    wrong = {
        r"weights\.safetensors: parameters: needs finite": {"parameters": np.zeros(3, np.float32)},
        r"memory: needs finite numbers of shape \(2, 4\)": {**good.tensors, "memory": np.zeros((2, 3))},
        r"parameters: needs finite numbers": {"parameters": np.full(PARAMETERS, np.nan, np.float32)},
    }
    for message, tensors in wrong.items():
        save_checkpoint(tmp_path / "bad", Checkpoint(good.card, tensors))
        with pytest.raises(InputError, match=message):
            load_vector_model(tmp_path / "bad")
    mlp = fresh_mlp(14, 16, 0)
    tensors = {**mlp.tensors, "actor.2.bias": np.zeros(5, np.float32)}
    save_checkpoint(tmp_path / "bad", Checkpoint(checkpoint_of(mlp, "none").card, tensors))
    with pytest.raises(InputError, match=r"actor\.2\.bias: needs finite numbers of shape \(256,\)"):
        load_vector_model(tmp_path / "bad")
    card = json.loads((tmp_path / "0" / CARD).read_text())
    (tmp_path / "0" / CARD).write_text(json.dumps({**card, "encoding": "pods-1"}))
    with pytest.raises(InputError, match=f"made for encoding 'pods-1', this is '{VECTOR_ENCODING}'"):
        load_vector_model(tmp_path / "0")
    (tmp_path / "0" / CARD).write_text(json.dumps({**card, "kind": "linear"}))
    with pytest.raises(InputError, match="kind: a 'linear' policy cannot decide"):
        load_vector_model(tmp_path / "0")


def test_the_shipped_model_serves_any_number_of_nodes() -> None:
    model = load_vector_model(PRETRAINED_VECTOR)
    for nodes in (1, 7, 100, 5000):
        state = np.zeros(2 * nodes + 2)
        state[-2:] = 0.005, 1.0
        state[: nodes // 2 * 2] = 0.5
        assert model.accepts(len(state), 2 * nodes + 2) is None
        action, _ = model.decide(state, 2 * nodes + 2, None, -1.0)
        assert 0 <= action < nodes  # it places
    assert sum(path.stat().st_size for path in PRETRAINED_VECTOR.iterdir()) < 1 << 20
    assert set(LAYOUT) >= {"place", "preempt", "delay", "reject", "value"}
