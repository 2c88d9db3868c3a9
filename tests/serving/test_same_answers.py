"""REST, gRPC and the core give the same answer to the same state at the same version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.serving.client.grpc import GrpcClient
from proreus.serving.client.rest import RestClient
from proreus.serving.decision_service import Question
from proreus.serving.validation import as_mask
from tests.serving.door_cases import DIMENSIONS, Doors

numbers = st.floats(allow_nan=False, allow_infinity=False, width=64) | st.floats(0, 1)
states = st.sampled_from(DIMENSIONS.lengths).flatmap(lambda n: st.lists(numbers, min_size=n, max_size=n))
masks = st.none() | st.lists(st.booleans(), min_size=DIMENSIONS.actions, max_size=DIMENSIONS.actions).filter(
    any
)


@pytest.fixture(scope="module")
def clients(doors: Doors) -> Iterator[tuple[RestClient, GrpcClient]]:
    with RestClient(doors.url) as rest, GrpcClient(doors.address) as grpc:
        yield rest, grpc


@settings(max_examples=150)
@given(state=states, mask=masks, deterministic=st.none() | st.booleans(), top_k=st.none() | st.integers(1, 8))
def test_both_doors_answer_as_the_core_does(
    doors: Doors,
    clients: tuple[RestClient, GrpcClient],
    state: list[float],
    mask: Any,
    deterministic: Any,
    top_k: Any,
) -> None:
    rest, grpc = clients
    asked = {"mask": mask, "deterministic": deterministic, "top_k": top_k}
    question = Question(
        np.array(state), None if mask is None else as_mask(mask, DIMENSIONS), deterministic, top_k
    )
    answer = doors.running.application.service.predict(question, "test")
    assert rest.predict(state, **asked) == answer
    assert grpc.predict(state, **asked) == answer
    if mask is None and deterministic is None:
        assert grpc.act(state) == answer.action


@settings(max_examples=30)
@given(block=st.lists(st.lists(st.floats(0, 1), min_size=6, max_size=6), min_size=1, max_size=20))
def test_batches_are_the_same_over_both_doors(
    doors: Doors, clients: tuple[RestClient, GrpcClient], block: list[list[float]]
) -> None:
    rest, grpc = clients
    first, second = rest.predict_batch(block), grpc.predict_batch(block)
    single = [rest.predict(state) for state in block]
    assert first.actions.tolist() == second.actions.tolist() == [answer.action for answer in single]
    assert first.log_probs.tolist() == second.log_probs.tolist()
    assert first.model_version == second.model_version == single[0].model_version
