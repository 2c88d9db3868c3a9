"""Bytes of all kinds at every gRPC method: an answer or a refusal, never a failure, never a crash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.serving.protos import decision_pb2 as decision
from proreus.serving.protos import scheduler_pb2 as scheduler
from tests.serving.door_cases import Doors

V1 = "/proreus.decision.v1.Decision"
UNARY = (
    "/scheduler.Scheduler/Predict",
    f"{V1}/Predict",
    f"{V1}/PredictBatch",
    f"{V1}/Update",
    "/grpc.health.v1.Health/Check",
)
STREAMS = (f"{V1}/PredictStream", "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
FINE = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
}
numbers = st.floats(width=64)
doubles = st.lists(numbers, max_size=10) | st.lists(st.floats(0, 1), min_size=6, max_size=6)
states = st.lists(st.builds(decision.State, state=doubles), max_size=3)
small = st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 9)
booleans = st.lists(st.booleans(), max_size=9)
valid = st.one_of(
    st.builds(scheduler.StateRequest, state=doubles),
    st.builds(
        decision.PredictRequest,
        state=doubles,
        mask=booleans,
        deterministic=st.none() | st.booleans(),
        top_k=small,
    ),
    st.builds(
        decision.BatchRequest,
        states=states,
        packed=st.binary(max_size=100) | st.just(bytes(96)),
        state_length=small,
        masks=st.lists(st.builds(decision.Mask, mask=booleans), max_size=3),
    ),
    st.builds(
        decision.UpdateRequest,
        states=states,
        actions=st.lists(small, max_size=3),
        rewards=st.lists(numbers, max_size=3),
        dones=st.lists(st.booleans(), max_size=3),
        log_probs=st.lists(numbers, max_size=3),
        model_version=st.none() | st.integers(-(2**63), 2**63 - 1),
    ),
).map(lambda message: message.SerializeToString())


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid message with some bytes changed, cut, doubled or put in."""
    data = bytearray(draw(valid))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        what = draw(st.sampled_from(("change", "cut", "insert", "double")))
        if what == "change" and at < len(data):
            data[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del data[at:]
        elif what == "insert":
            data[at:at] = draw(st.binary(max_size=9))
        else:
            data += data[at:]
    return bytes(data)


@pytest.fixture(scope="module")
def channel(doors: Doors) -> Iterator[Any]:
    with grpc.insecure_channel(doors.address) as found:
        yield found


def code_of(call: Any) -> grpc.StatusCode:
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@settings(max_examples=300)
@given(path=st.sampled_from(UNARY), data=st.binary(max_size=300) | mutated())
def test_any_bytes_get_an_answer_or_a_refusal(channel: Any, path: str, data: bytes) -> None:
    assert code_of(lambda: channel.unary_unary(path)(data, timeout=20)) in FINE


@settings(max_examples=60)
@given(path=st.sampled_from(STREAMS), parts=st.lists(st.binary(max_size=100) | mutated(), max_size=4))
def test_any_stream_of_bytes_gets_answers_or_a_refusal(channel: Any, path: str, parts: list[bytes]) -> None:
    assert code_of(lambda: list(channel.stream_stream(path)(iter(parts), timeout=20))) in FINE


def test_oversize_messages_are_refused_and_the_service_goes_on(doors: Doors) -> None:
    options = (("grpc.max_send_message_length", -1),)
    with grpc.insecure_channel(doors.address, options=options) as wide:
        for path in UNARY:
            code = code_of(lambda path=path: wide.unary_unary(path)(bytes(40 << 20), timeout=30))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
        data = scheduler.StateRequest(state=[0.5] * 6).SerializeToString()
        assert code_of(lambda: wide.unary_unary(UNARY[0])(data, timeout=10)) is grpc.StatusCode.OK
    assert doors.running.application.service.measurements.counted("proreus_failures") == 0
