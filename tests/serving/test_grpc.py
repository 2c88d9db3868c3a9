"""The gRPC door: the k8s simulator's call, the richer service, health, reflection, status codes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from proreus.serving.admission import RequestAdmission
from proreus.serving.application import ServiceParts
from proreus.serving.protos import decision_pb2 as decision
from proreus.serving.protos import scheduler_pb2 as scheduler
from proreus.serving.server.grpc_calls import GrpcLimits
from proreus.serving.server.grpc_methods import Method, read_head
from proreus.serving.server.grpc_server import GrpcServer
from tests.serving.door_cases import Doors, Scripted, new_service

STATE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
V1 = "/proreus.decision.v1.Decision"


@pytest.fixture(scope="module")
def channel(doors: Doors) -> Iterator[Any]:
    with grpc.insecure_channel(doors.address) as found:
        yield found


def call(channel: Any, path: str, request: Any, answer: Any) -> Any:
    data = request if isinstance(request, bytes) else request.SerializeToString()
    return answer.FromString(channel.unary_unary(path)(data, timeout=60))


def refused(channel: Any, path: str, request: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, path, request, decision.PredictResponse)
    return caught.value.code(), caught.value.details()


def test_the_proto_is_the_one_of_document_000() -> None:
    described = scheduler.DESCRIPTOR
    assert described.package == "scheduler"
    method = described.services_by_name["Scheduler"].methods_by_name["Predict"]
    assert (method.input_type.full_name, method.output_type.full_name) == (
        "scheduler.StateRequest",
        "scheduler.ActionResponse",
    )
    state = method.input_type.fields_by_name["state"]
    assert (state.number, state.type, state.is_repeated) == (1, state.TYPE_DOUBLE, True)
    action = method.output_type.fields_by_name["action"]
    assert (action.number, action.type) == (1, action.TYPE_INT32)


def test_document_000s_call_has_an_action_and_the_version_beside_it(doors: Doors, channel: Any) -> None:
    data = scheduler.StateRequest(state=STATE).SerializeToString()
    answer, told = channel.unary_unary("/scheduler.Scheduler/Predict").with_call(data, timeout=60)
    action = scheduler.ActionResponse.FromString(answer).action
    assert 0 <= action < 8
    assert dict(told.trailing_metadata())["proreus-model-version"] == str(
        doors.running.application.service.version
    )
    # Doubles that are not packed are the same message.
    unpacked = b"".join(b"\x09" + np.float64(number).tobytes() for number in STATE)
    assert call(channel, "/scheduler.Scheduler/Predict", unpacked, scheduler.ActionResponse).action == action


def test_mask_alternatives_and_mode(channel: Any) -> None:
    mask = [False] * 6 + [True, True]
    request = decision.PredictRequest(state=STATE, mask=mask, deterministic=True, top_k=8)
    answer = call(channel, f"{V1}/Predict", request, decision.PredictResponse)
    assert answer.action in (6, 7) and answer.deterministic
    assert [choice.action for choice in answer.top] in ([6, 7], [7, 6])
    assert answer.top[0].action == answer.action
    assert sum(choice.probability for choice in answer.top) == pytest.approx(1.0)
    assert answer.decided_by == decision.DECIDED_BY_MODEL


@pytest.mark.parametrize(
    ("path", "request_", "says"),
    [
        ("/scheduler.Scheduler/Predict", b"", "state: has 0 numbers"),
        ("/scheduler.Scheduler/Predict", b"\xff\xff", "request: "),
        ("/scheduler.Scheduler/Predict", b"\x0a\x05abcde", "request: "),
        ("/scheduler.Scheduler/Predict", b"\x0a\xff\xff\xff\xff\xff\xff", "request: "),
        ("/scheduler.Scheduler/Predict", scheduler.StateRequest(state=[0.0] * 5), "state: has 5 numbers"),
        (
            "/scheduler.Scheduler/Predict",
            scheduler.StateRequest(state=[0, 0, float("nan"), 0, 0, 0]),
            "state[2]: nan",
        ),
        (f"{V1}/Predict", decision.PredictRequest(state=[float("inf")] * 6, top_k=1), "state[0]: inf"),
        (f"{V1}/Predict", decision.PredictRequest(state=STATE, mask=[True]), "mask: has 1"),
        (f"{V1}/Predict", decision.PredictRequest(state=STATE, mask=[False] * 8), "mask: allows no"),
        (f"{V1}/Predict", decision.PredictRequest(state=STATE, top_k=-1), "top_k: -1"),
        (f"{V1}/Predict", decision.PredictRequest(state=STATE, top_k=9), "top_k: 9"),
        (f"{V1}/PredictBatch", decision.BatchRequest(), "states: is empty"),
        (f"{V1}/PredictBatch", decision.BatchRequest(packed=b"1234567"), "packed: has 7 bytes"),
        (
            f"{V1}/PredictBatch",
            decision.BatchRequest(packed=b"12345678", state_length=-1),
            "state_length: -1",
        ),
        (
            f"{V1}/PredictBatch",
            decision.BatchRequest(packed=b"12345678" * 6, states=[decision.State(state=STATE)]),
            "packed: comes with states",
        ),
        (f"{V1}/Update", decision.UpdateRequest(), "states: has 0 steps"),
        (
            f"{V1}/Update",
            decision.UpdateRequest(
                states=[decision.State(state=STATE)], actions=[8], rewards=[0.0], dones=[False]
            ),
            "actions[0]: 8",
        ),
    ],
)
def test_what_cannot_be_meant_is_an_invalid_argument(
    channel: Any, path: str, request_: Any, says: str
) -> None:
    code, details = refused(channel, path, request_)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith(says), details


def test_batches_in_either_form_decide_as_single_calls(channel: Any) -> None:
    states = np.random.default_rng(1).random((20, 6))
    single = [
        call(channel, f"{V1}/Predict", decision.PredictRequest(state=state), decision.PredictResponse).action
        for state in states
    ]
    for request in (
        decision.BatchRequest(packed=states.tobytes()),
        decision.BatchRequest(packed=states.tobytes(), state_length=6),
        decision.BatchRequest(states=[decision.State(state=state) for state in states]),
    ):
        answer = call(channel, f"{V1}/PredictBatch", request, decision.BatchResponse)
        assert list(answer.actions) == single


def test_a_stream_answers_in_order_and_survives_a_bad_request(channel: Any) -> None:
    requests = [
        decision.PredictRequest(state=STATE, deterministic=True),
        decision.PredictRequest(state=[1.0]),
        decision.PredictRequest(state=STATE, deterministic=True),
    ]
    data = (request.SerializeToString() for request in requests)
    stream = channel.stream_stream(f"{V1}/PredictStream")(data, timeout=60)
    answers = [decision.PredictResponse.FromString(answer) for answer in stream]
    assert [bool(answer.error) for answer in answers] == [False, True, False]
    assert answers[1].error.startswith("state: has 1 numbers")
    assert answers[0].action == answers[2].action


def test_health_and_reflection(channel: Any) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    serving = health_pb2.HealthCheckResponse.SERVING
    for name in ("", "scheduler.Scheduler", "proreus.decision.v1.Decision"):
        assert health.Check(health_pb2.HealthCheckRequest(service=name), timeout=60).status == serving
    with pytest.raises(grpc.RpcError) as caught:
        health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=60)
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND
    watch = health.Watch(health_pb2.HealthCheckRequest(service="scheduler.Scheduler"), timeout=60)
    assert next(watch).status == serving
    watch.cancel()
    asked = reflection_pb2.ServerReflectionRequest(list_services="")
    (answer,) = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([asked]))
    names = {service.name for service in answer.list_services_response.service}
    assert {"scheduler.Scheduler", "proreus.decision.v1.Decision", "grpc.health.v1.Health"} <= names


def test_unknown_methods(channel: Any) -> None:
    code, _ = refused(channel, "/scheduler.Scheduler/Nothing", b"")
    assert code is grpc.StatusCode.UNIMPLEMENTED


def test_the_rule_answers_before_the_clients_deadline() -> None:
    model = Scripted(choice=7)
    service = new_service(model, deadline_seconds=60.0)
    model.seconds = 60.0
    service._live.guard._usual = 60.0  # as if it had been that slow before
    door = GrpcServer(ServiceParts(service, None, None, None), RequestAdmission())  # type: ignore[arg-type]
    port = door.start("127.0.0.1:0")
    try:
        with grpc.insecure_channel(f"127.0.0.1:{port}") as slow:
            data = decision.PredictRequest(state=STATE).SerializeToString()
            answer = slow.unary_unary(f"{V1}/Predict")(data, timeout=10)
        assert decision.PredictResponse.FromString(answer).decided_by == decision.DECIDED_BY_RULE
    finally:
        door.stop(0.0)


def test_more_streams_than_there_are_places_are_refused(doors: Doors, channel: Any) -> None:
    import queue

    open_streams, ends = [], []
    for _ in range(GrpcLimits().conversations):
        requests: queue.Queue[bytes | None] = queue.Queue()
        requests.put(decision.PredictRequest(state=STATE).SerializeToString())
        stream = channel.stream_stream(f"{V1}/PredictStream")(iter(requests.get, None), timeout=60)
        next(stream)
        open_streams.append(stream)
        ends.append(requests)
    with pytest.raises(grpc.RpcError) as caught:
        next(channel.stream_stream(f"{V1}/PredictStream")(iter([]), timeout=60))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    # Calls that are no streams still find a place.
    call(channel, f"{V1}/Predict", decision.PredictRequest(state=STATE), decision.PredictResponse)
    for requests in ends:
        requests.put(None)
    for stream in open_streams:
        assert list(stream) == []


@pytest.mark.parametrize("compression", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_read(doors: Doors, compression: grpc.Compression) -> None:
    with grpc.insecure_channel(doors.address) as opened:
        data = decision.PredictRequest(state=STATE, mask=[True] * 8).SerializeToString()
        plain, packed = (
            opened.unary_unary(f"{V1}/Predict")(data, timeout=60, compression=way)
            for way in (grpc.Compression.NoCompression, compression)
        )
        assert plain == packed
        requests = [decision.PredictRequest(state=STATE).SerializeToString()] * 40
        call_ = opened.stream_stream(f"{V1}/PredictStream")
        assert len(list(call_(iter(requests), timeout=60, compression=compression))) == 40


def test_a_compressed_bomb_is_refused(doors: Doors) -> None:
    options = (("grpc.max_send_message_length", -1),)
    with grpc.insecure_channel(doors.address, options=options) as opened:
        with pytest.raises(grpc.RpcError) as caught:
            opened.unary_unary(f"{V1}/PredictBatch")(
                bytes(60 << 20), timeout=60, compression=grpc.Compression.Gzip
            )
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "larger than" in caught.value.details()


def test_long_answers_come_whole_through_narrow_windows(doors: Doors) -> None:
    """200,000 states: an answer of two megabytes, many times the client's first window."""
    states = np.random.default_rng(2).random((200_000, 6))
    data = decision.BatchRequest(packed=states.tobytes()).SerializeToString()
    options = (("grpc.max_receive_message_length", -1), ("grpc.http2.lookahead_bytes", 1024))
    with grpc.insecure_channel(doors.address, options=options) as opened:
        answer = decision.BatchResponse.FromString(opened.unary_unary(f"{V1}/PredictBatch")(data, timeout=60))
    assert len(answer.actions) == len(answer.log_probs) == 200_000


def test_the_deadline_of_a_call_is_read_in_every_unit() -> None:
    for value, seconds in ((b"5S", 5.0), (b"250m", 0.25), (b"2M", 120.0), (b"1H", 3600.0), (b"7u", 7e-6)):
        headers = [(b":method", b"POST"), (b"content-type", b"application/grpc"), (b":path", b"/x")]
        head = read_head([*headers, (b"grpc-timeout", value)], {b"/x": Method()})
        assert head.seconds == pytest.approx(seconds) and head.refusal is None
    for value in (b"", b"5", b"S", b"123456789S", b"-1S", b"1.5S", b"5x"):
        head = read_head([*headers, (b"grpc-timeout", value)], {b"/x": Method()})
        assert head.refusal is not None and str(head.refusal).startswith("grpc-timeout")


def test_draining_tells_watchers_and_refuses_what_comes_after() -> None:
    door = GrpcServer(ServiceParts(new_service(), None, None, None), RequestAdmission())  # type: ignore[arg-type]
    port = door.start("127.0.0.1:0")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        watch = health_pb2_grpc.HealthStub(opened).Watch(health_pb2.HealthCheckRequest(), timeout=60)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        door.drain()
        assert next(watch).status == health_pb2.HealthCheckResponse.NOT_SERVING
        door.stop(1.0)
        with pytest.raises(grpc.RpcError) as caught:
            next(watch)
        assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
        data = decision.PredictRequest(state=STATE).SerializeToString()
        with pytest.raises(grpc.RpcError) as caught:
            opened.unary_unary(f"{V1}/Predict")(data, timeout=5)
        assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
