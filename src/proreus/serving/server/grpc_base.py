"""A gRPC door by grpcio, as the scaler has one: who may call, messages that do not come, refusals, health.

Synchronous, with threads: its calls are few and may take long. Decisions are many and short: their door is
`grpc_server`. Every call is taken as a stream of messages, whose first one counts: so it is known who asks,
and refused or let in, before the message is there (see `grpc_call_limits`). Long messages are worked on in
turns.
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import HealthServicer
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as REFLECTION
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from proreus.httpserver.work_queue import LAST_SECONDS, WorkQueue
from proreus.model.errors import WorkError
from proreus.serving.admission import RequestAdmission, byte_budget, fair_turns
from proreus.serving.messages import Refusal, Refused
from proreus.serving.metrics import Measurements
from proreus.serving.server.grpc_call_limits import (
    CallThreads,
    Context,
    Messages,
    Streams,
    Watchers,
    client_of_call,
)
from proreus.serving.server.grpc_messages import parse
from proreus.serving.server.grpc_status import code_of

DOOR = "grpc"
HEALTH = "grpc.health.v1.Health"
_log = logging.getLogger(__name__)
_LARGE_MESSAGE = 64 * 1024
"""Bytes from which on the work on a message counts as large."""
_AT_EASE, _MOST_SPEECHLESS = 64, 512
"""Calls that may take their time to send a message, and that may hold a thread meanwhile; threads are started
when they are needed."""
_MOST_WATCHERS, _WATCHERS_EACH = 256, 64


@dataclass(frozen=True)
class GrpcOptions:
    """How the gRPC door is built."""

    threads: int = 8
    concurrency: int = 1024
    """Calls under way at once, waiting ones included."""
    message_bytes: int = 32 * 1024 * 1024
    message_seconds: float = 10.0
    """How long a message may take to come."""


@dataclass(frozen=True)
class Guards:
    """What a door is told from outside."""

    admission: RequestAdmission
    measurements: Measurements
    turns: WorkQueue | None = None
    """Shared with another door; None: threads of its own."""


class GrpcBaseServer(ABC):
    """A gRPC server whose calls are guarded; what it offers is for others to say."""

    services: tuple[str, ...] = ()
    """The names of what it offers."""

    def __init__(self, guards: Guards, options: GrpcOptions, inline_bytes: int = _LARGE_MESSAGE) -> None:
        """inline_bytes: a longer message is worked on in turn."""
        self.admission, self._measurements = guards.admission, guards.measurements
        self._options, self._inline_bytes = options, inline_bytes
        self._budget = byte_budget(max(4 * options.message_bytes, 4 * _LARGE_MESSAGE))
        self._turns, self._own_turns = guards.turns or fair_turns(name="grpc-work"), guards.turns is None
        streams = max(1, options.threads // 2)
        self._messages = Messages(_AT_EASE, options.message_seconds)
        self._streams = Streams(streams)
        self._watchers = Watchers(_MOST_WATCHERS, _WATCHERS_EACH)
        self._threads = CallThreads(options.threads + streams + _MOST_SPEECHLESS)
        self._server = grpc.server(
            self._threads,
            # Up to here calls are refused by `_begin`, which lets every one of them hear why.
            maximum_concurrent_rpcs=8 * options.concurrency,
            options=(
                ("grpc.so_reuseport", 0),  # a port in use is an error, not a share of the traffic
                ("grpc.max_receive_message_length", options.message_bytes),
                ("grpc.max_send_message_length", options.message_bytes),
                ("grpc.server_handshake_timeout_ms", round(1e3 * options.message_seconds)),
                ("grpc.max_connection_idle_ms", 600_000),
            ),
        )
        self._health = HealthServicer()
        self._reflection = ReflectionServicer((*self.services, HEALTH, REFLECTION))
        for name in self.services:
            self.tell_health(name, serving=True)
        self._server.add_generic_rpc_handlers((*self.handlers(), *self._common_handlers()))

    @abstractmethod
    def handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        """Who answers the calls of its services."""

    def tell_health(self, name: str, *, serving: bool) -> None:
        """What the health check says of that name."""
        status = health_pb2.HealthCheckResponse
        self._health.set(name, status.SERVING if serving else status.NOT_SERVING)

    def _common_handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        # On the wire a call with one message is a stream of one.
        unary, stream = grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        yield grpc.method_handlers_generic_handler(
            HEALTH,
            {
                "Check": unary(self._guarded(self.check, open_to_all=True)),
                "Watch": stream(not_blocking(self.watch)),
            },
        )
        reflect = stream(self._streamed(self.reflect))
        yield grpc.method_handlers_generic_handler(REFLECTION, {"ServerReflectionInfo": reflect})

    def start(
        self, address: str, credentials: tuple[Path, Path] | None = None, clients: Path | None = None
    ) -> int:
        """Listen on `host:port`; the port, where 0 was asked for.

        credentials: certificate and key. clients: who signs the certificates that callers must have.
        """
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                certificate, key = credentials
                pair = (key.read_bytes(), certificate.read_bytes())
                signed = None if clients is None else clients.read_bytes()
                secure = grpc.ssl_server_credentials((pair,), signed, require_client_auth=signed is not None)
                port = self._server.add_secure_port(address, secure)
        except RuntimeError as error:
            raise WorkError(f"gRPC cannot listen on {address}: {error}") from error
        if not port:
            raise WorkError(f"gRPC cannot listen on {address}")
        self._server.start()
        self._messages.watch()
        return int(port)

    def drain(self) -> None:
        """Tell whoever watches that no more calls should come."""
        self._health.enter_graceful_shutdown()

    def stop(self, seconds: float) -> None:
        """Take no more calls, and end those under way within so many seconds."""
        self._server.stop(seconds).wait()
        self._messages.end()
        if self._own_turns:
            self._turns.close(LAST_SECONDS)

    def check(self, data: bytes, context: Context) -> bytes:
        """Health/Check."""
        asked = parse(health_pb2.HealthCheckRequest.FromString, data)
        answer: bytes = self._health.Check(asked, context).SerializeToString()
        return answer

    def watch(
        self, requests: Iterator[bytes], context: Context, send: Callable[[bytes | None], None]
    ) -> None:
        """Health/Watch; needs no thread."""
        try:
            self._watchers.enter(context)
            data = self._messages.next(requests, context)
            asked = parse(health_pb2.HealthCheckRequest.FromString, data)
        except Refused as refused:
            self._refuse(refused, context)
        except grpc.RpcError as error:
            self._fail(error, context)
        self._health.Watch(
            asked, context, lambda answer: send(None if answer is None else answer.SerializeToString())
        )

    def reflect(self, requests: Iterator[bytes], context: Context) -> Iterator[bytes]:
        """ServerReflection/ServerReflectionInfo."""
        parsed = (parse(reflection_pb2.ServerReflectionRequest.FromString, data) for data in requests)
        for answer in self._reflection.ServerReflectionInfo(parsed, context):
            yield answer.SerializeToString()

    def _guarded(
        self,
        work: Callable[[bytes, Context], bytes],
        *,
        open_to_all: bool = False,
    ) -> Callable[[Iterator[bytes], Context], bytes]:
        """`work` with its admission, its refusals as status codes, and its time."""
        measurements, inline_bytes = self._measurements, self._inline_bytes

        def handle(requests: Iterator[bytes], context: Context) -> bytes:
            began = time.perf_counter()
            try:
                self._begin(context, open_to_all=open_to_all)
                data = self._messages.next(requests, context)
                if len(data) <= inline_bytes:
                    return work(data, context)
                return self._in_turn(work, data, context)
            except Refused as refused:
                self._refuse(refused, context)
            except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
                self._fail(error, context)
            finally:
                measurements.took(DOOR, "whole", time.perf_counter() - began)

        return handle

    def _in_turn(self, work: Callable[[bytes, Context], bytes], data: bytes, context: Context) -> bytes:
        """Have it done when it is the client's turn; a large message is held against the client's budget."""
        client, large = client_of_call(context), len(data) > _LARGE_MESSAGE
        if not large:
            return self._turns.submit(client, False, lambda: work(data, context)).result()
        self._budget.take(client, len(data))
        try:
            return self._turns.submit(client, True, lambda: work(data, context)).result()
        finally:
            self._budget.give_back(client, len(data))

    def _streamed(
        self, work: Callable[[Iterator[bytes], Context], Iterator[bytes]]
    ) -> Callable[[Iterator[bytes], Context], Iterator[bytes]]:
        def handle(requests: Iterator[bytes], context: Context) -> Iterator[bytes]:
            try:
                self._begin(context)
                held = self._streams.enter(context)
            except Refused as refused:
                self._refuse(refused, context)

            def heard() -> Iterator[bytes]:
                for data in requests:
                    self._streams.heard(held)
                    yield data

            try:
                yield from work(heard(), context)
            except Refused as refused:
                self._refuse(refused, context)
            except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
                # A client that hangs up ends the iterator of its requests with an RpcError.
                if context.is_active() or not isinstance(error, grpc.RpcError):
                    self._fail(error, context)
            finally:
                self._streams.leave(held)

        return handle

    def _begin(self, context: Context, *, open_to_all: bool = False) -> None:
        """Refuse a call before its message is there, where there are too many or it lacks the token."""
        if self._threads.waiting > self._options.concurrency:
            raise Refused(Refusal.EXHAUSTED, f"more than {self._options.concurrency} calls are waiting")
        if not (open_to_all or self.admission.open):
            self._admit(context)

    def _admit(self, context: Context) -> None:
        given = next((value for key, value in context.invocation_metadata() if key == "authorization"), "")
        self.admission.admit(given.encode() if isinstance(given, str) else given, client_of_call(context))

    def _refuse(self, refused: Refused, context: Context) -> NoReturn:
        self._count(refused)
        if _log.isEnabledFor(logging.INFO):
            _log.info("request", extra={"fields": {**_fields(context), "detail": str(refused)}})
        context.abort(code_of(refused.refusal), str(refused))
        raise AssertionError("abort raises")

    def _count(self, refused: Refused) -> None:
        self._measurements.count("proreus_refusals", door=DOOR, reason=refused.refusal.value)

    def _fail(self, error: Exception, context: Context) -> NoReturn:
        if isinstance(error, grpc.RpcError) and not context.is_active():
            # Who asked has hung up, or was too slow: there is nobody to tell.
            context.abort(grpc.StatusCode.CANCELLED, "")
        self._measurements.count("proreus_failures", door=DOOR)
        _log.error("request failed", exc_info=error, extra={"fields": _fields(context)})
        context.abort(grpc.StatusCode.INTERNAL, "the service failed; its log says why")
        raise AssertionError("abort raises")


def _fields(context: Context) -> dict[str, object]:
    """For the log: who asked, and the id that the client gave its request."""
    given = next((value for key, value in context.invocation_metadata() if key == "x-request-id"), "")
    return {"request_id": str(given)[:128], "door": DOOR, "client": context.peer()}


def not_blocking(watch: Callable[..., None]) -> Any:
    """Marks a streaming handler that answers through a callback and holds no thread meanwhile."""

    def handle(requests: Iterator[bytes], context: Context, send: Callable[[bytes | None], None]) -> None:
        watch(requests, context, send)

    handle.experimental_non_blocking = True  # type: ignore[attr-defined]
    handle.experimental_thread_pool = None  # type: ignore[attr-defined]
    return handle
