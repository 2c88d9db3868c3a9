"""The gRPC door: the k8s simulator's Scheduler, and the Decision service beside it.

A server of HTTP/2 of our own (`http2`, `grpc_calls`) in an event loop of its own: grpcio's server hands every
call from thread to thread, which costs several times what a decision costs.
"""

from __future__ import annotations

import asyncio
import math
import ssl
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import SERVICE_NAME as REFLECTION
from grpc_reflection.v1alpha.reflection import ReflectionServicer

from proreus.httpserver.connection_limits import Crowd
from proreus.httpserver.sockets import BACKLOG, listen
from proreus.httpserver.tls_handshakes import Handshakes
from proreus.httpserver.work_queue import LAST_SECONDS, WorkQueue
from proreus.model.errors import WorkError
from proreus.serving.admission import RequestAdmission, fair_turns
from proreus.serving.allowed_hosts import Visitors
from proreus.serving.application import ServiceParts
from proreus.serving.decision_service import Question
from proreus.serving.messages import Refused
from proreus.serving.server.grpc_calls import DOOR, CallGuards, GrpcCalls, GrpcLimits, trailer
from proreus.serving.server.grpc_health import HEALTH, Health
from proreus.serving.server.grpc_messages import (
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
from proreus.serving.server.grpc_methods import Call, Method
from proreus.serving.server.http2.connection import Http2Connection

SCHEDULER, DECISION = "scheduler.Scheduler", "proreus.decision.v1.Decision"
VERSION_KEY = "proreus-model-version"
"""Trailing metadata of the k8s simulator's Predict, whose message has no room for the version."""
_INLINE_BYTES = 64 * 1024
_EVERY_SECONDS = 0.1
_STARTUP_SECONDS = 30.0


class GrpcServer:
    """A gRPC server over one service."""

    def __init__(
        self,
        application: ServiceParts,
        admission: RequestAdmission,
        limits: GrpcLimits | None = None,
        visitors: Visitors | None = None,
        turns: WorkQueue | None = None,
    ) -> None:
        """turns: shared with another door; None: threads of its own."""
        self._application, self.service = application, application.service
        self._limits = limits or GrpcLimits()
        self._turns, self._own_turns = turns or fair_turns(name="grpc-work"), turns is None
        self._guards = CallGuards(
            admission,
            self.service.measurements,
            visitors or Visitors(),
            self._turns,
            _INLINE_BYTES + 16 * self.service.options.dimensions.state,
        )
        self._health = Health((SCHEDULER, DECISION))
        self._reflection = ReflectionServicer((SCHEDULER, DECISION, HEALTH, REFLECTION))
        self._version: tuple[int, bytes] = (-1, b"")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Future[float] | None = None
        self._thread: threading.Thread | None = None
        self._connections: set[Http2Connection] = set()
        warm_up()

    def methods(self) -> Mapping[bytes, Method]:
        """All that is offered, by path."""
        services = {
            SCHEDULER: {"Predict": Method(self.act)},
            DECISION: {
                "Predict": Method(self.predict),
                "PredictBatch": Method(self.predict_batch, in_turn=True),
                "Update": Method(self.update, in_turn=True, changes=True),
                "PredictStream": Method(self.predict_stream, shape="conversation"),
            },
            HEALTH: self._health.methods(),
            REFLECTION: {"ServerReflectionInfo": Method(self.reflect, shape="conversation")},
        }
        return {
            f"/{service}/{name}".encode(): method
            for service, methods in services.items()
            for name, method in methods.items()
        }

    def start(self, address: str, credentials: tuple[Path, Path] | None = None) -> int:
        """Listen on `host:port`; the port, where 0 was asked for. credentials: certificate and key."""
        host, _, port = address.rpartition(":")
        listening = listen(host, int(port), "gRPC")
        context = None if credentials is None else _tls(credentials)
        failure: list[BaseException] = []
        started = threading.Event()

        async def serve() -> None:
            loop = self._loop = asyncio.get_running_loop()
            self._stopping = loop.create_future()
            calls = GrpcCalls(self.methods(), self._guards, self._limits, loop)
            crowd = Crowd(self._limits)

            def connection() -> Http2Connection:
                return _Connection(calls, crowd, loop, self._connections)

            tasks = [loop.create_task(crowd.watch(loop)), loop.create_task(_look_after(calls))]
            server = None
            if context is None:
                server = await loop.create_server(connection, sock=listening, backlog=BACKLOG)
            else:
                handshakes = Handshakes(context, max(1, self._limits.connections // 4))
                tasks.append(loop.create_task(handshakes.accept(listening, connection)))
            started.set()
            seconds = await self._stopping
            listening.close() if server is None else server.close()
            await self._drained(seconds)
            for task in tasks:
                task.cancel()

        def run() -> None:
            try:
                with asyncio.Runner(loop_factory=_new_loop()) as runner:
                    runner.run(serve())
            except BaseException as error:  # noqa: BLE001 - handed to whoever starts the door
                failure.append(error)
            finally:
                started.set()

        self._thread = threading.Thread(target=run, name="grpc", daemon=True)
        self._thread.start()
        if not started.wait(_STARTUP_SECONDS) or failure:
            raise WorkError(f"gRPC cannot serve: {failure[0] if failure else 'it did not start in time'}")
        return int(listening.getsockname()[1])

    def drain(self) -> None:
        """Tell whoever watches that no more calls should come."""
        self._health.drain()

    def stop(self, seconds: float) -> None:
        """Take no more calls, and end those under way within so many seconds."""
        if self._loop is not None and self._stopping is not None and self._thread is not None:
            stopping = self._stopping
            if self._thread.is_alive():
                self._loop.call_soon_threadsafe(_tell, stopping, seconds)
            self._thread.join(seconds + LAST_SECONDS)
        if self._own_turns:
            self._turns.close(LAST_SECONDS)

    async def _drained(self, seconds: float) -> None:
        """Wait until all calls but those that only watch have ended."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        for connection in tuple(self._connections):
            connection.go_away()
        while any(_busy(connection) for connection in self._connections) and loop.time() < until:
            await asyncio.sleep(0.01)
        for connection in tuple(self._connections):
            connection.close()
        await asyncio.sleep(0)

    def act(self, data: bytes, call: Call) -> bytes:
        """scheduler.Scheduler/Predict."""
        question = Question(read_state(data), seconds_left=call.seconds_left(), client=call.client)
        answer = self.service.predict(question, DOOR)
        version, block = self._version
        if version != answer.model_version:
            version, block = answer.model_version, trailer(VERSION_KEY, str(answer.model_version))
            self._version = (version, block)
        call.trailers = block
        return action_bytes(answer)

    def predict(self, data: bytes, call: Call) -> bytes:
        """Decision/Predict."""
        dimensions = self.service.options.dimensions
        question = read_question(data, dimensions, call.seconds_left(), call.client)
        return answer_bytes(self.service.predict(question, DOOR))

    def predict_batch(self, data: bytes, call: Call) -> bytes:
        """Decision/PredictBatch."""
        del call
        return batch_bytes(
            self.service.predict_batch(read_batch(data, self.service.options.dimensions), DOOR)
        )

    def predict_stream(self, data: bytes, call: Call) -> bytes:
        """Decision/PredictStream: an answer or a refusal per request."""
        try:
            question = read_question(data, self.service.options.dimensions, math.inf, call.client)
            return answer_bytes(self.service.predict(question, DOOR))
        except Refused as refused:
            self.service.measurements.count("proreus_refusals", door=DOOR, reason=refused.refusal.value)
            return refusal_bytes(refused)

    def update(self, data: bytes, call: Call) -> bytes:
        """Decision/Update; answered when the experience is on the disk."""
        return update_bytes(self._application.feedback.take(read_update(data), call.client))

    def reflect(self, data: bytes, call: Call) -> bytes:
        """ServerReflection/ServerReflectionInfo."""
        del call
        asked = parse(reflection_pb2.ServerReflectionRequest.FromString, data)
        (told,) = self._reflection.ServerReflectionInfo(iter((asked,)), None)
        answer: bytes = told.SerializeToString()
        return answer


class _Connection(Http2Connection):
    """A connection that is known to its server while it is there."""

    def __init__(
        self,
        calls: GrpcCalls,
        crowd: Crowd,
        loop: asyncio.AbstractEventLoop,
        connections: set[Http2Connection],
    ) -> None:
        super().__init__(calls, crowd, loop)
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.add(self)
        super().connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        super().connection_lost(exc)


def _tell(stopping: asyncio.Future[float], seconds: float) -> None:
    """That it ends; the second time it is known."""
    if not stopping.done():
        stopping.set_result(seconds)


def _busy(connection: Http2Connection) -> bool:
    """Whether an answer is being worked on, or not taken yet."""
    return bool(connection.unread) or any(call.work for call in connection.streams.values())


async def _look_after(calls: GrpcCalls) -> None:
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        calls.end_overdue()


def _new_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop's, where it is: Windows has none."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def _tls(credentials: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*credentials)
    context.set_alpn_protocols(["h2"])
    return context
