"""gRPC over HTTP/2: calls are let in, their messages answered, and refused where they cannot be.

All of it happens in the event loop of the door. A short call is answered within the call that delivered its
last byte, as REST does it; what may take long is done by threads, in turns with what came through the other
door. It is known who asks, and refused or let in, before the message is there.
"""

from __future__ import annotations

import asyncio
import logging
import struct
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import grpc

from proreus.httpserver.client_identity import client_of
from proreus.httpserver.work_queue import WorkQueue
from proreus.serving.admission import RequestAdmission, byte_budget
from proreus.serving.allowed_hosts import NO_CHANGES, Visitors
from proreus.serving.messages import Refusal, Refused, invalid
from proreus.serving.metrics import Measurements
from proreus.serving.server.grpc_methods import Call, CallHead, Method, inflated, read_head, too_large
from proreus.serving.server.grpc_open_calls import Conversations, Subscribers, WaitingCalls
from proreus.serving.server.grpc_status import code_of, status_block
from proreus.serving.server.http2.connection import Http2Connection
from proreus.serving.server.http2.hpack import Header, literal

DOOR = "grpc"
_log = logging.getLogger(__name__)
_LARGE_MESSAGE = 64 * 1024
"""Bytes from which on a message is held against its client's budget, and work on it counts as large."""
_AT_EASE = 64
_MOST_SUBSCRIBERS, _SUBSCRIBERS_EACH = 256, 64
_IDLE_CONVERSATION_SECONDS = 10.0
_MOST_IN_A_ROW = 16
"""Messages of one conversation that are answered before others have their turn."""
_PREFIX = struct.Struct(">BI")
_HEAD = b"\x88" + b"\x0f\x10\x10application/grpc"  # :status 200, content-type: both by their number
_DONE = status_block(grpc.StatusCode.OK)
_NOTHING = Method()


@dataclass(frozen=True)
class GrpcLimits:
    """What a client may ask of the gRPC door; fields as in `HttpLimits`."""

    concurrency: int = 1024
    """Calls at work or waiting for their message at once."""
    message_bytes: int = 32 * 1024 * 1024
    body_seconds: float = 10.0
    """How long a message may take to come, and any part of a frame."""
    connections: int = 4096
    idle_seconds: float = 600.0
    """How long a connection may stay open without a call: gRPC clients keep theirs."""
    write_seconds: float = 20.0
    conversations: int = 64
    """Streams of `PredictStream` and of reflection at once; one that was silent for 10 s gives way."""


@dataclass(frozen=True)
class CallGuards:
    """What a door is told from outside."""

    admission: RequestAdmission
    measurements: Measurements
    visitors: Visitors
    turns: WorkQueue
    inline_bytes: int = _LARGE_MESSAGE
    """A longer message is worked on in turn."""


class GrpcCalls:
    """The calls of one door."""

    def __init__(
        self,
        methods: Mapping[bytes, Method],
        guards: CallGuards,
        limits: GrpcLimits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """methods: by their path."""
        self._methods, self._guards, self._limits, self._loop = methods, guards, limits, loop
        self._took = guards.measurements.took
        self._inline_bytes = guards.inline_bytes
        self._budget = byte_budget(max(4 * limits.message_bytes, 4 * _LARGE_MESSAGE))
        self._waiting = WaitingCalls(_AT_EASE, limits.concurrency, limits.body_seconds)
        self._conversations = Conversations(limits.conversations, _IDLE_CONVERSATION_SECONDS)
        self._subscribers = Subscribers(_MOST_SUBSCRIBERS, _SUBSCRIBERS_EACH)
        self._working = 0

    # What connections call.

    def head(self, headers: list[Header]) -> CallHead:
        """What the headers of a call mean."""
        head = read_head(headers, self._methods)
        return head if head.method is not None else CallHead(_NOTHING, refusal=head.refusal)

    def open(self, connection: Http2Connection, number: int, head: CallHead, *, ended: bool) -> None:
        """Let a call in, or refuse it."""
        call = Call(connection, number, head, client_of(connection.address))
        call.ended = ended
        connection.streams[number] = call
        try:
            self._admit(call)
        except Refused as refused:
            self._refuse(call, refused)
            return
        if ended:
            self.data(call, b"")
        else:
            self._shed(self._waiting.enter(call))

    def data(self, call: Call, data: bytes) -> None:
        """More of a call's messages, or their end."""
        if call.stop is not None or (call.work and call.method.shape == "unary"):
            return  # its one message is there
        body = call.body
        if body is None and len(data) >= _PREFIX.size and call.method.shape == "unary":
            flag, size = _PREFIX.unpack_from(data)
            if not flag and size == len(data) - _PREFIX.size and size <= self._inline_bytes:
                # All of it at once, as nearly every call comes.
                self._take(call, data[_PREFIX.size :], compressed=False)
                return
        try:
            if body is None:
                body = call.body = bytearray()
            body += data
            self._hold(call, len(body))
            self._read_messages(call)
        except Refused as refused:
            self._refuse(call, refused)

    def gone(self, call: Call) -> None:
        """Nobody waits for the answer any more."""
        self._waiting.leave(call)
        if call.method.shape == "conversation":
            self._conversations.leave(call)
        if call.stop is not None:
            call.stop()
            call.stop = None
        if call.method.subscribe is not None:
            self._subscribers.leave(call)
        if isinstance(call.work, Future):
            call.work.cancel()
        else:
            self._let_go(call)
        call.body = None

    # Who is let in.

    def _admit(self, call: Call) -> None:
        head, method, guards = call.head, call.method, self._guards
        if head.refusal is not None:
            raise head.refusal.with_traceback(None)  # it is raised again for each call with this head
        if not (method.open_to_all or guards.admission.open):
            guards.admission.admit(head.authorization, call.client)
        if method.changes and not guards.visitors.changes:
            raise Refused(Refusal.FORBIDDEN, NO_CHANGES)
        if method.subscribe is not None:
            self._subscribers.enter(call)
        if method.shape == "conversation":
            silent = self._conversations.enter(call)
            if silent is not None:
                self._refuse(silent, Refused(Refusal.EXHAUSTED, "was silent while others wanted its place"))
                silent.connection.flush()

    def end_overdue(self) -> None:
        """End calls whose message does not come; called again and again."""
        for call in self._waiting.overdue():
            self._shed(call)

    def _shed(self, call: Call | None) -> None:
        if call is not None:
            self._refuse(call, Refused(Refusal.TOO_SLOW, "the message did not come in time", "request"))
            call.connection.flush()

    # Messages.

    def _hold(self, call: Call, size: int) -> None:
        """What has come of a large message counts against its client's budget."""
        if size > max(_LARGE_MESSAGE, call.held):
            self._budget.take(call.client, size - call.held)
            call.held = size

    def _let_go(self, call: Call) -> None:
        if call.held:
            self._budget.give_back(call.client, call.held)
            call.held = 0

    def _read_messages(self, call: Call) -> None:
        """Answer the messages that are there; what is no whole one waits."""
        body, count = call.body, 0
        most = self._limits.message_bytes
        while body is not None and not call.work and not call.done and len(body) >= _PREFIX.size:
            flag, size = _PREFIX.unpack_from(body)
            if flag > 1:
                raise invalid("request", "these bytes are no messages of gRPC")
            if size > most:
                raise too_large(most)
            if len(body) < _PREFIX.size + size:
                break
            if count >= _MOST_IN_A_ROW:
                call.work = True
                self._loop.call_soon(self._go_on, call)
                return
            message = bytes(memoryview(body)[_PREFIX.size : _PREFIX.size + size])
            del body[: _PREFIX.size + size]
            count += 1
            self._take(call, message, compressed=bool(flag))
        if call.done or call.work or call.stop is not None:
            if body is not None and len(body) > most + _PREFIX.size:
                raise too_large(most)
            return
        if call.method.shape == "conversation" and count and not body:
            self._let_go(call)
        if call.ended:
            if body:
                raise invalid("request", "a message ends early")
            if call.method.shape == "unary":
                raise invalid("request", "a message is missing")
            if call.method.shape == "conversation":
                self._end(call, _DONE)

    def _go_on(self, call: Call) -> None:
        if not call.done:
            call.work = False
            try:
                self._read_messages(call)
            except Refused as refused:
                self._refuse(call, refused)
            call.connection.flush()

    def _take(self, call: Call, message: bytes, *, compressed: bool) -> None:
        """One message: answered now, or by a thread."""
        method = call.method
        self._waiting.leave(call)
        if method.shape == "conversation":
            self._conversations.heard(call)
        try:
            if method.subscribe is not None:
                self._subscribe(call, message)
            elif method.in_turn or compressed or len(message) > self._inline_bytes:
                self._work(call, message, compressed=compressed)
            else:
                began = time.perf_counter()
                try:
                    assert method.answer is not None
                    answer = method.answer(message, call)
                finally:
                    self._took(DOOR, "whole", time.perf_counter() - began)
                self._reply(call, answer)
        except Refused as refused:
            self._refuse(call, refused)
        except Exception as error:  # noqa: BLE001 - the door stays open, whatever happens behind it
            self._fail(call, error)

    def _reply(self, call: Call, answer: bytes) -> None:
        data = _PREFIX.pack(0, len(answer)) + answer
        if call.method.shape == "unary":
            call.connection.answer(call, _HEAD, data, _DONE + call.trailers)
            self._let_go(call)
        else:
            call.connection.send(call, _HEAD, data)

    def _subscribe(self, call: Call, message: bytes) -> None:
        def send(answer: bytes) -> None:
            self._loop.call_soon_threadsafe(self._tell, call, answer)

        assert call.method.subscribe is not None
        call.stop = call.method.subscribe(message, send)

    def _tell(self, call: Call, answer: bytes) -> None:
        if not call.done:
            call.connection.send(call, _HEAD, _PREFIX.pack(0, len(answer)) + answer)
            call.connection.flush()

    # Work in turn.

    def _work(self, call: Call, message: bytes, *, compressed: bool) -> None:
        limits = self._limits
        if self._working >= limits.concurrency:
            raise Refused(Refusal.EXHAUSTED, f"more than {limits.concurrency} calls are under way")
        answer = call.method.answer
        assert answer is not None

        def run() -> bytes:
            began = time.perf_counter()
            try:
                whole = inflated(message, call.head.encoding, limits.message_bytes) if compressed else message
                return answer(whole, call)
            finally:
                self._took(DOOR, "whole", time.perf_counter() - began)

        large = compressed or len(message) > _LARGE_MESSAGE
        call.work = self._guards.turns.submit(call.client, large, run)
        self._working += 1
        call.work.add_done_callback(partial(self._told, call))

    def _told(self, call: Call, work: Future[bytes]) -> None:
        """By the thread that did it: the rest happens in the loop."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._worked, call, work)

    def _worked(self, call: Call, work: Future[bytes]) -> None:
        self._working -= 1
        call.work = False
        if call.method.shape == "unary" or call.done:
            self._let_go(call)
        if call.done or work.cancelled():
            return
        error = work.exception()
        if error is None:
            self._reply(call, work.result())
            if call.method.shape == "conversation":
                self._go_on(call)
        elif isinstance(error, Refused):
            self._refuse(call, error)
        else:
            self._fail(call, error)
        call.connection.flush()

    # Ends without an answer.

    def _end(self, call: Call, block: bytes) -> None:
        call.connection.end(call, block if call.headed else _HEAD + block)
        self.gone(call)

    def _refuse(self, call: Call, refused: Refused) -> None:
        self._guards.measurements.count("proreus_refusals", door=DOOR, reason=refused.refusal.value)
        if _log.isEnabledFor(logging.INFO):
            _log.info("request", extra={"fields": {**_fields(call), "detail": str(refused)}})
        self._end(call, status_block(code_of(refused.refusal), str(refused)))

    def _fail(self, call: Call, error: BaseException) -> None:
        self._guards.measurements.count("proreus_failures", door=DOOR)
        _log.error("request failed", exc_info=error, extra={"fields": _fields(call)})
        self._end(call, status_block(grpc.StatusCode.INTERNAL, "the service failed; its log says why"))


def trailer(name: str, value: str) -> bytes:
    """A header behind an answer."""
    return literal(name.encode(), value.encode())


def _fields(call: Call) -> dict[str, object]:
    """For the log: who asked, and the id that the client gave its request."""
    return {"request_id": call.head.request_id, "door": DOOR, "client": call.client}
