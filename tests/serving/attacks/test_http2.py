"""Raw HTTP/2 against the gRPC door: floods of what is cheap to send, half requests, shut windows."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from proreus.serving.protos import decision_pb2 as decision
from proreus.serving.protos import scheduler_pb2 as scheduler
from proreus.serving.server.http2 import frames as f
from proreus.serving.server.http2.frames import ErrorCode, frame
from proreus.serving.server.http2.hpack import literal
from tests.serving.attacks.harness import Attacked, heard, needs_proc, sent, size

PREDICT = "/scheduler.Scheduler/Predict"
MESSAGE = scheduler.StateRequest(state=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6]).SerializeToString()
FRAMED = b"\x00" + len(MESSAGE).to_bytes(4, "big") + MESSAGE


def head(path: str = PREDICT, *more: tuple[bytes, bytes]) -> bytes:
    """A block of headers of a call."""
    fields = [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path.encode()),
        (b":authority", b"localhost"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *more,
    ]
    return b"".join(literal(name, value) for name, value in fields)


@contextlib.contextmanager
def http2(attacked: Attacked, *, windows: int | None = None) -> Iterator[socket.socket]:
    """A connection that has been greeted; windows: what its streams may be sent at first."""
    with socket.create_connection(("127.0.0.1", attacked.grpc), timeout=30) as connection:
        first = {} if windows is None else {f.INITIAL_WINDOW_SIZE: windows}
        connection.sendall(f.PREFACE + f.settings(first))
        yield connection


def call(number: int, path: str = PREDICT, framed: bytes = FRAMED) -> bytes:
    """A whole call."""
    return frame(f.HEADERS, f.END_HEADERS, number, head(path)) + frame(f.DATA, f.END_STREAM, number, framed)


def came(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each frame."""
    found, at = [], 0
    while at + 9 <= len(data):
        length = int.from_bytes(data[at : at + 3])
        number = int.from_bytes(data[at + 5 : at + 9])
        found.append((data[at + 3], data[at + 4], number, data[at + 9 : at + 9 + length]))
        at += 9 + length
    return found


def reason(data: bytes) -> ErrorCode | None:
    """Why the server went away."""
    codes = [
        ErrorCode(struct.unpack(">I", payload[4:8])[0])
        for kind, _, _, payload in came(data)
        if kind == f.GOAWAY
    ]
    return codes[-1] if codes else None


def still_answers(attacked: Attacked) -> None:
    """Another client is served."""
    with http2(attacked) as connection:
        connection.sendall(call(1))
        connection.settimeout(30)
        data = b""
        while not any(kind == f.DATA for kind, *_ in came(data)):
            piece = connection.recv(65_536)
            assert piece, came(data)
            data += piece


FLOODS: dict[str, Callable[[int], bytes]] = {
    # CVE-2023-44487: calls that are taken back as soon as they are sent.
    "rapid reset": lambda k: (
        frame(f.HEADERS, f.END_HEADERS, 2 * k + 1, head()) + f.reset(2 * k + 1, ErrorCode.CANCEL)
    ),
    "pings": lambda k: frame(f.PING, 0, 0, bytes(8)),
    "settings": lambda k: f.settings({f.INITIAL_WINDOW_SIZE: 65_535 + k % 2}),
    "priorities": lambda k: frame(f.PRIORITY, 0, 1, bytes(5)),
    "unknown frames": lambda k: frame(0xBB, 0, 0, b""),
    "dribbled windows": lambda k: f.window_update(0, 1),
    "empty data": lambda k: (
        (frame(f.HEADERS, f.END_HEADERS, 1, head()) if not k else b"") + frame(f.DATA, 0, 1, b"")
    ),
    "padded nothing": lambda k: (
        (frame(f.HEADERS, f.END_HEADERS, 1, head()) if not k else b"")
        + frame(f.DATA, f.PADDED, 1, b"\x0a" + bytes(10))
    ),
}


@needs_proc
@pytest.mark.parametrize("flood", FLOODS)
def test_floods_of_what_is_cheap_to_send_end_the_connection(attacked: Attacked, flood: str) -> None:
    make = FLOODS[flood]
    with attacked.beside_an_honest_client("grpc"):
        for _ in range(size(20, 1)):
            with http2(attacked) as connection:
                for start in range(0, 40_000, 100):
                    if not sent(connection, b"".join(make(k) for k in range(start, start + 100))):
                        break
                data = heard(connection)
                # The last words may be lost where the connection was reset under a flood.
                assert reason(data) in (ErrorCode.ENHANCE_YOUR_CALM, None)
                connection.settimeout(1)
                assert not sent(connection, bytes(9) * 1_000) or heard(connection) == b""
    still_answers(attacked)


@needs_proc
def test_honest_cancels_and_pings_are_no_flood(attacked: Attacked) -> None:
    with http2(attacked) as connection:
        for k in range(200):
            number = 4 * k + 1
            connection.sendall(
                call(number)
                + frame(f.PING, 0, 0, bytes(8))
                + frame(f.HEADERS, f.END_HEADERS, number + 2, head())
                + f.reset(number + 2, ErrorCode.CANCEL)
            )
        connection.sendall(call(801))
        connection.settimeout(30)
        data = b""
        while not any(kind == f.DATA and number == 801 for kind, _, number, _ in came(data)):
            piece = connection.recv(65_536)
            assert piece, reason(data)
            data += piece


@needs_proc
def test_headers_without_end_end_the_connection(attacked: Attacked) -> None:
    """CVE-2024-27316."""
    with attacked.beside_an_honest_client("grpc"), http2(attacked) as connection:
        sent(connection, frame(f.HEADERS, 0, 1, head()))
        for _ in range(size(100_000, 2_000)):
            if not sent(connection, frame(f.CONTINUATION, 0, 1, literal(b"x", b"y" * 16))):
                break
        assert reason(heard(connection)) in (ErrorCode.ENHANCE_YOUR_CALM, None)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff\xff\xff" + bytes(6), ErrorCode.FRAME_SIZE_ERROR),
        (frame(f.DATA, 0, 5, b"x"), ErrorCode.PROTOCOL_ERROR),
        (frame(f.HEADERS, f.END_HEADERS, 2, head()), ErrorCode.PROTOCOL_ERROR),
        (frame(f.HEADERS, f.END_HEADERS, 1, b"\xff\xff\xff\xff\xff\xff"), ErrorCode.COMPRESSION_ERROR),
        (frame(f.HEADERS, 0, 1, b"") + frame(f.PING, 0, 0, bytes(8)), ErrorCode.PROTOCOL_ERROR),
        (frame(f.CONTINUATION, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (frame(f.PUSH_PROMISE, 0, 1, b""), ErrorCode.PROTOCOL_ERROR),
        (f.window_update(0, 2**31 - 1), ErrorCode.FLOW_CONTROL_ERROR),
        (f.window_update(0, 0), ErrorCode.PROTOCOL_ERROR),
        (f.settings({f.INITIAL_WINDOW_SIZE: 2**31}), ErrorCode.FLOW_CONTROL_ERROR),
        (f.settings({f.MAX_FRAME_SIZE: 1}), ErrorCode.PROTOCOL_ERROR),
        (frame(f.SETTINGS, 0, 0, b"12345"), ErrorCode.FRAME_SIZE_ERROR),
        (frame(f.PING, 0, 0, b"1"), ErrorCode.FRAME_SIZE_ERROR),
        (f.reset(7, ErrorCode.CANCEL), ErrorCode.PROTOCOL_ERROR),
        (
            frame(f.HEADERS, f.END_HEADERS, 1, head()) + frame(f.DATA, f.PADDED, 1, b"\x09abc"),
            ErrorCode.PROTOCOL_ERROR,
        ),
    ],
)
def test_what_is_no_http2_ends_its_connection_with_the_reason(
    attacked: Attacked, data: bytes, code: ErrorCode
) -> None:
    with http2(attacked) as connection:
        connection.sendall(data)
        assert reason(heard(connection)) is code
    still_answers(attacked)


def test_http1_on_this_port_is_not_kept_waiting(attacked: Attacked) -> None:
    with socket.create_connection(("127.0.0.1", attacked.grpc), timeout=30) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert reason(heard(connection)) is ErrorCode.PROTOCOL_ERROR


@needs_proc
def test_more_streams_than_allowed_are_refused_one_by_one(attacked: Attacked) -> None:
    with http2(attacked) as connection:
        for k in range(140):
            connection.sendall(frame(f.HEADERS, f.END_HEADERS, 2 * k + 1, head()))
        connection.settimeout(5)
        refused: set[int] = set()
        data = b""
        while len(refused) < 12:
            data += connection.recv(65_536)
            refused = {
                number
                for kind, _, number, payload in came(data)
                if kind == f.RST_STREAM and payload == struct.pack(">I", ErrorCode.REFUSED_STREAM)
            }
        assert refused == set(range(257, 281, 2))


@needs_proc
def test_windows_that_stay_shut_hold_no_answers_for_long(attacked: Attacked) -> None:
    """Answers that nobody may be sent: no memory for more of them, and no new calls meanwhile."""
    states = decision.BatchRequest(packed=bytes(8 * 6 * 20_000)).SerializeToString()
    framed = b"\x00" + len(states).to_bytes(4, "big") + states
    with attacked.beside_an_honest_client("grpc"), contextlib.ExitStack() as stack:
        for _ in range(size(16, 3)):
            connection = stack.enter_context(http2(attacked, windows=0))
            number = 1
            for _ in range(size(40, 6)):
                data = frame(
                    f.HEADERS, f.END_HEADERS, number, head("/proreus.decision.v1.Decision/PredictBatch")
                )
                for start in range(0, len(framed), f.LARGEST_FRAME):
                    piece = framed[start : start + f.LARGEST_FRAME]
                    last = start + f.LARGEST_FRAME >= len(framed)
                    data += frame(f.DATA, f.END_STREAM if last else 0, number, piece)
                connection.settimeout(2)
                if not sent(connection, data):
                    break
                number += 2
        time.sleep(0.5)
    still_answers(attacked)


@needs_proc
def test_half_frames_and_silent_connections_hold_up_nobody(attacked: Attacked) -> None:
    with attacked.beside_an_honest_client("grpc", least=2.0), contextlib.ExitStack() as stack:
        for k in range(size(1_000, 100)):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", attacked.grpc), timeout=30)
            )
            greeting = f.PREFACE + f.settings({}) + call(1)
            connection.sendall(greeting[: k % len(greeting)])
    still_answers(attacked)


def test_a_slow_half_frame_is_cut_off(attacked: Attacked) -> None:
    with http2(attacked) as connection:
        connection.sendall(call(1)[:20])
        begin = time.monotonic()
        heard(connection)
        assert 5 < time.monotonic() - begin < 25


def test_a_watcher_is_one_however_much_it_sends(attacked: Attacked) -> None:
    """More messages behind the one that a call has are not read: each would be a subscription for ever."""
    with http2(attacked) as connection:
        watch = frame(f.HEADERS, f.END_HEADERS, 1, head("/grpc.health.v1.Health/Watch"))
        connection.sendall(
            watch + frame(f.DATA, 0, 1, bytes(5)) + frame(f.DATA, 0, 1, bytes(5) * 50) + call(3)
        )
        connection.settimeout(30)
        data = b""
        while not any(kind == f.DATA and number == 3 for kind, _, number, _ in came(data)):
            piece = connection.recv(65_536)
            assert piece, reason(data)
            data += piece
        time.sleep(0.2)
        connection.sendall(call(5))
        while not any(kind == f.DATA and number == 5 for kind, _, number, _ in came(data)):
            data += connection.recv(65_536)
        assert sum(kind == f.DATA and number == 1 for kind, _, number, _ in came(data)) == 1
