"""The gRPC door: the k8s simulator's Scheduler, the Decision service beside it, health and reflection.

Synchronous, with threads: measured faster than the asyncio server at every number of clients, and a decision
is short. Every call is taken as a stream of messages, whose first one counts: so it is known who asks, and
refused or let in, before the message is there (see `grpc_calls`). What may take long is done in turns with
what came through the other door.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, assert_never

import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health import HealthServicer
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as REFLECTION
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from proreus.model.errors import WorkError
from proreus.serving.admission import Admission
from proreus.serving.application import Application
from proreus.serving.clients import ByteBudget
from proreus.serving.core import Question
from proreus.serving.doors.grpc_calls import (
    CallThreads,
    Context,
    Messages,
    Streams,
    Watchers,
    client_of_call,
)
from proreus.serving.doors.grpc_messages import (
    action_bytes,
    answer_bytes,
    batch_bytes,
    parse,
    read_batch,
    read_question,
    read_state,
    read_update,
    refusal_bytes,
    update_bytes,
    warm_up,
)
from proreus.serving.hosts import NO_CHANGES, Visitors
from proreus.serving.turns import Turns
from proreus.serving.values import Refusal, Refused

DOOR = "grpc"
SCHEDULER, DECISION, HEALTH = "scheduler.Scheduler", "proreus.decision.v1.Decision", "grpc.health.v1.Health"
VERSION_KEY = "proreus-model-version"
"""Trailing metadata of the k8s simulator's Predict, whose message has no room for the version."""
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
    one_core: bool = True
    """Keep the door's threads on one core: see `on_one_core`."""


class GrpcDoor:
    """A gRPC server over one service."""

    def __init__(
        self,
        application: Application,
        admission: Admission,
        options: GrpcOptions | None = None,
        visitors: Visitors | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._application, self.service, self.admission = application, application.service, admission
        warm_up()
        self._options = options = options or GrpcOptions()
        self._budget = ByteBudget(max(4 * options.message_bytes, 4 * _LARGE_MESSAGE))
        self._visitors = visitors or Visitors()
        self._turns, self._own_turns = turns or Turns(name="grpc-work"), turns is None
        streams = max(1, options.threads // 2)
        self._messages = Messages(_AT_EASE, options.message_seconds)
        self._streams = Streams(streams)
        self._watchers = Watchers(_MOST_WATCHERS, _WATCHERS_EACH)
        self._placed = on_one_core if options.one_core else contextlib.nullcontext
        with self._placed():
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
        self._reflection = ReflectionServicer((SCHEDULER, DECISION, HEALTH, REFLECTION))
        serving = health_pb2.HealthCheckResponse.SERVING
        for name in (SCHEDULER, DECISION):
            self._health.set(name, serving)
        self._server.add_generic_rpc_handlers(tuple(self._handlers()))

    def start(self, address: str, credentials: tuple[Path, Path] | None = None) -> int:
        """Listen on `host:port`; the port, where 0 was asked for. credentials: certificate and key."""
        try:
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                certificate, key = credentials
                pair = (key.read_bytes(), certificate.read_bytes())
                port = self._server.add_secure_port(address, grpc.ssl_server_credentials((pair,)))
        except RuntimeError as error:
            raise WorkError(f"gRPC cannot listen on {address}: {error}") from error
        if not port:
            raise WorkError(f"gRPC cannot listen on {address}")
        with self._placed():
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
            self._turns.close()

    def _handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        # On the wire a call with one message is a stream of one.
        unary, stream = grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        yield grpc.method_handlers_generic_handler(SCHEDULER, {"Predict": unary(self._guarded(self.act))})
        yield grpc.method_handlers_generic_handler(
            DECISION,
            {
                "Predict": unary(self._guarded(self.predict)),
                "PredictBatch": unary(self._guarded(self.predict_batch, in_turn=True)),
                "Update": unary(self._guarded(self.update, in_turn=True, changes=True)),
                "PredictStream": stream(self._streamed(self.predict_stream)),
            },
        )
        yield grpc.method_handlers_generic_handler(
            HEALTH,
            {
                "Check": unary(self._guarded(self.check, open_to_all=True)),
                "Watch": stream(_not_blocking(self.watch)),
            },
        )
        reflect = stream(self._streamed(self.reflect))
        yield grpc.method_handlers_generic_handler(REFLECTION, {"ServerReflectionInfo": reflect})

    def act(self, data: bytes, context: Context) -> bytes:
        """scheduler.Scheduler/Predict."""
        question = Question(
            read_state(data), seconds_left=_seconds_left(context), client=client_of_call(context)
        )
        answer = self.service.predict(question, DOOR)
        context.set_trailing_metadata(((VERSION_KEY, str(answer.model_version)),))
        return action_bytes(answer)

    def predict(self, data: bytes, context: Context) -> bytes:
        """Decision/Predict."""
        dimensions = self.service.options.dimensions
        question = read_question(data, dimensions, _seconds_left(context), client_of_call(context))
        return answer_bytes(self.service.predict(question, DOOR))

    def predict_batch(self, data: bytes, context: Context) -> bytes:
        """Decision/PredictBatch."""
        del context
        return batch_bytes(
            self.service.predict_batch(read_batch(data, self.service.options.dimensions), DOOR)
        )

    def predict_stream(self, requests: Iterator[bytes], context: Context) -> Iterator[bytes]:
        """Decision/PredictStream: an answer or a refusal per request."""
        client = client_of_call(context)
        for data in requests:
            began = time.perf_counter()
            try:
                question = read_question(data, self.service.options.dimensions, math.inf, client)
                yield answer_bytes(self.service.predict(question, DOOR))
            except Refused as refused:
                self._count(refused)
                yield refusal_bytes(refused)
            self.service.measurements.took(DOOR, "whole", time.perf_counter() - began)

    def update(self, data: bytes, context: Context) -> bytes:
        """Decision/Update; answered when the experience is on the disk."""
        return update_bytes(self._application.feedback.take(read_update(data), client_of_call(context)))

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
        in_turn: bool = False,
        changes: bool = False,
    ) -> Callable[[Iterator[bytes], Context], bytes]:
        """`work` with its admission, its refusals as status codes, and its time."""
        measurements = self.service.measurements
        inline_bytes = _LARGE_MESSAGE + 16 * self.service.options.dimensions.state

        def handle(requests: Iterator[bytes], context: Context) -> bytes:
            began = time.perf_counter()
            try:
                self._begin(context, open_to_all=open_to_all)
                if changes and not self._visitors.changes:
                    raise Refused(Refusal.FORBIDDEN, NO_CHANGES)
                data = self._messages.next(requests, context)
                if not in_turn and len(data) <= inline_bytes:
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
        self.service.measurements.count("proreus_refusals", door=DOOR, reason=refused.refusal.value)

    def _fail(self, error: Exception, context: Context) -> NoReturn:
        if isinstance(error, grpc.RpcError) and not context.is_active():
            # Who asked has hung up, or was too slow: there is nobody to tell.
            context.abort(grpc.StatusCode.CANCELLED, "")
        self.service.measurements.count("proreus_failures", door=DOOR)
        _log.error("request failed", exc_info=error, extra={"fields": _fields(context)})
        context.abort(grpc.StatusCode.INTERNAL, "the service failed; its log says why")
        raise AssertionError("abort raises")


@contextlib.contextmanager
def on_one_core() -> Iterator[None]:
    """Threads that are started in here stay on one core, and so do those that they start.

    Python's lock lets one of them run at a time. Spread over cores they spend more time waking each other up
    than answering: at 64 clients a request then costs up to twice the CPU. Processes choose different cores.
    """
    if not hasattr(os, "sched_setaffinity"):  # a system that cannot say where a thread runs
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {sorted(before)[os.getpid() % len(before)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def code_of(refusal: Refusal) -> grpc.StatusCode:
    """The gRPC status of a refusal."""
    match refusal:
        case Refusal.INVALID | Refusal.WRONG_TYPE:
            return grpc.StatusCode.INVALID_ARGUMENT
        case Refusal.UNAUTHENTICATED:
            return grpc.StatusCode.UNAUTHENTICATED
        case Refusal.FORBIDDEN:
            return grpc.StatusCode.PERMISSION_DENIED
        case Refusal.NOT_FOUND:
            return grpc.StatusCode.NOT_FOUND
        case Refusal.WRONG_METHOD:
            return grpc.StatusCode.UNIMPLEMENTED
        case Refusal.TOO_SLOW:
            return grpc.StatusCode.DEADLINE_EXCEEDED
        case Refusal.CONFLICT:
            return grpc.StatusCode.FAILED_PRECONDITION
        case Refusal.TOO_LARGE | Refusal.EXHAUSTED | Refusal.UNAVAILABLE:
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        case _:
            assert_never(refusal)


def _fields(context: Context) -> dict[str, object]:
    """For the log: who asked, and the id that the client gave its request."""
    given = next((value for key, value in context.invocation_metadata() if key == "x-request-id"), "")
    return {"request_id": str(given)[:128], "door": DOOR, "client": context.peer()}


def _seconds_left(context: Context) -> float:
    left = context.time_remaining()
    return math.inf if left is None else float(left)


def _not_blocking(watch: Callable[..., None]) -> Any:
    """Marks a streaming handler that answers through a callback and holds no thread meanwhile."""

    def handle(requests: Iterator[bytes], context: Context, send: Callable[[bytes | None], None]) -> None:
        watch(requests, context, send)

    handle.experimental_non_blocking = True  # type: ignore[attr-defined]
    handle.experimental_thread_pool = None  # type: ignore[attr-defined]
    return handle
