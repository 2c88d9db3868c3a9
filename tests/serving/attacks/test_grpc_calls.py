"""gRPC calls that hold what others need."""

from __future__ import annotations

import contextlib
import queue
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import numpy as np
import pytest

from proreus.httpserver.client_identity import client_of
from proreus.serving.admission import RequestAdmission
from proreus.serving.application import ServiceParts
from proreus.serving.protos import decision_pb2 as decision
from proreus.serving.server.grpc_calls import GrpcLimits
from proreus.serving.server.grpc_server import GrpcServer
from proreus.serving.server.protobuf_fields import field_count
from tests.serving.attacks.harness import Attacked, needs_proc, size
from tests.serving.door_cases import new_service

STATE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
V1 = "/proreus.decision.v1.Decision"
CALLS = ("/scheduler.Scheduler/Predict", f"{V1}/Predict", f"{V1}/Update", "/grpc.health.v1.Health/Check")
WATCH = "/grpc.health.v1.Health/Watch"


@contextlib.contextmanager
def channel(attacked: Attacked) -> Any:
    options = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
    with grpc.insecure_channel(f"127.0.0.1:{attacked.grpc}", options=options) as found:
        yield found


def speechless(opened: Any, path: str) -> Any:
    """A call that sends its head and no message."""
    silent: queue.Queue[Any] = queue.Queue()
    return opened.stream_stream(path)(iter(silent.get, None), timeout=60)


@needs_proc
@pytest.mark.parametrize("door", ["grpc", "rest"])
def test_calls_without_a_message_hold_up_nobody(attacked: Attacked, door: str) -> None:
    with channel(attacked) as opened, attacked.beside_an_honest_client(door, least=2.0):
        calls = [speechless(opened, path) for path in (*CALLS, WATCH) for _ in range(size(60, 12))]
        time.sleep(1.0)
        for call in calls:
            call.cancel()


def test_calls_without_a_message_end() -> None:
    application = ServiceParts(new_service(), None, None, None)  # type: ignore[arg-type]
    door = GrpcServer(application, RequestAdmission(), GrpcLimits(body_seconds=0.4))
    port = door.start("127.0.0.1:0")
    with grpc.insecure_channel(f"127.0.0.1:{port}") as opened:
        call = speechless(opened, CALLS[0])
        begin = time.monotonic()
        with pytest.raises(grpc.RpcError) as caught:
            next(call)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert 0.3 < time.monotonic() - begin < 40
    door.stop(0.0)


@needs_proc
def test_watchers_are_few(attacked: Attacked) -> None:
    with channel(attacked) as opened, attacked.beside_an_honest_client("grpc"):
        calls = [opened.unary_stream(WATCH)(b"", timeout=30) for _ in range(100)]
        codes: Counter[Any] = Counter()
        for call in calls:
            try:
                next(call)
                codes["told"] += 1
            except grpc.RpcError as error:
                codes[error.code()] += 1
        for call in calls:
            call.cancel()
    assert codes["told"] == 64 and codes[grpc.StatusCode.RESOURCE_EXHAUSTED] == 36


@needs_proc
@pytest.mark.parametrize("path", [f"{V1}/PredictBatch", f"{V1}/Update"])
def test_messages_of_many_empty_states_are_refused_unread(attacked: Attacked, path: str) -> None:
    data = b"\x0a\x00" * size(16_000_000, 600_000)
    with channel(attacked) as opened, attacked.beside_an_honest_client("grpc"):
        with pytest.raises(grpc.RpcError) as caught:
            opened.unary_unary(path)(data, timeout=60)
        assert caught.value.code() in (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            grpc.StatusCode.INVALID_ARGUMENT,
        ), caught.value
        assert "states" in caught.value.details()


@needs_proc
def test_large_batches_of_one_client_leave_room_for_others(attacked: Attacked) -> None:
    states = np.random.default_rng(0).random((size(600_000, 30_000), 6))
    data = decision.BatchRequest(packed=states.tobytes()).SerializeToString()

    def attack(opened: Any) -> grpc.StatusCode:
        try:
            opened.unary_unary(f"{V1}/PredictBatch")(data, timeout=60)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return grpc.StatusCode.OK

    with (
        channel(attacked) as opened,
        attacked.beside_an_honest_client("grpc"),
        ThreadPoolExecutor(8) as pool,
    ):
        codes = Counter(pool.map(lambda _: attack(opened), range(size(40, 16))))
    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert codes[grpc.StatusCode.OK] >= 4


@needs_proc
def test_too_many_calls_hear_that_they_are_too_many(attacked: Attacked) -> None:
    data = decision.PredictRequest(state=STATE).SerializeToString()
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(channel(attacked)) for _ in range(4)]
        calls = [
            opened.unary_unary(f"{V1}/Predict").future(data, timeout=60)
            for _ in range(size(1_000, 200))
            for opened in channels
        ]
        codes = Counter(call.code() for call in calls)
    assert set(codes) <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}, codes


def counted(data: bytes) -> int:
    """The fields of a message, by a parser of its own."""
    count, at = 0, 0

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while data[at] >= 0x80:
            value, at, shift = value | (data[at] & 0x7F) << shift, at + 1, shift + 7
        return value | data[at] << shift, at + 1

    while at < len(data):
        tag, at = varint(at)
        match tag & 7:
            case 0:
                _, at = varint(at)
            case 1:
                at += 8
            case 2:
                length, at = varint(at)
                at += length
            case 5:
                at += 4
        count += 1
    return count


def test_fields_are_counted_as_they_are() -> None:
    random = np.random.default_rng(0)
    for _ in range(50):
        message = decision.UpdateRequest(
            states=[decision.State(state=random.random(int(random.integers(0, 40)))) for _ in range(20)],
            actions=random.integers(-5, 2**31 - 1, 20).tolist(),
            rewards=random.random(20),
            model_version=int(random.integers(0, 2**62)),
        ).SerializeToString()
        whole = np.frombuffer(message, dtype=np.uint8)
        assert field_count(whole, 1_000) == counted(message) == 23
        assert field_count(whole, 5) == 6
    assert field_count(np.frombuffer(b"\x0a\xff\xff\xff\xff\xff\xff", dtype=np.uint8), 10) == -1
    assert field_count(np.frombuffer(b"\x0a\x05abc", dtype=np.uint8), 10) == -1
    assert field_count(np.frombuffer(b"\x0b", dtype=np.uint8), 10) == -1


def test_a_network_of_ipv6_is_one_client() -> None:
    assert client_of("2001:db8::1") == client_of("2001:db8::ffff") != client_of("2001:db8:0:1::1")
    assert client_of("::ffff:192.0.2.1") == client_of("192.0.2.1") == "192.0.2.1"
    assert client_of("fe80::1%eth0") == client_of("fe80::2")
    assert client_of("somewhere") == "somewhere"
