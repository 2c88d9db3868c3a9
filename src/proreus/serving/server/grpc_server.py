"""The gRPC door: the k8s simulator's Scheduler, and the Decision service beside it (see `grpc_base`)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

import grpc

from proreus.httpserver.work_queue import WorkQueue
from proreus.serving.admission import RequestAdmission
from proreus.serving.allowed_hosts import Visitors
from proreus.serving.application import ServiceParts
from proreus.serving.decision_service import Question
from proreus.serving.messages import Refused
from proreus.serving.server.grpc_base import DOOR, GrpcBaseServer, GrpcOptions, Guards
from proreus.serving.server.grpc_call_limits import Context, client_of_call
from proreus.serving.server.grpc_messages import (
    action_bytes,
    answer_bytes,
    batch_bytes,
    read_batch,
    read_question,
    read_state,
    read_update,
    refusal_bytes,
    update_bytes,
    warm_up,
)

SCHEDULER, DECISION = "scheduler.Scheduler", "proreus.decision.v1.Decision"
VERSION_KEY = "proreus-model-version"
"""Trailing metadata of the k8s simulator's Predict, whose message has no room for the version."""
_INLINE_BYTES = 64 * 1024


class GrpcServer(GrpcBaseServer):
    """A gRPC server over one service."""

    services = (SCHEDULER, DECISION)

    def __init__(
        self,
        application: ServiceParts,
        admission: RequestAdmission,
        options: GrpcOptions | None = None,
        visitors: Visitors | None = None,
        turns: WorkQueue | None = None,
    ) -> None:
        self._application, self.service = application, application.service
        warm_up()
        guards = Guards(admission, self.service.measurements, visitors or Visitors(), turns)
        inline_bytes = _INLINE_BYTES + 16 * self.service.options.dimensions.state
        super().__init__(guards, options or GrpcOptions(), inline_bytes)

    def handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        """Both services."""
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


def _seconds_left(context: Context) -> float:
    left = context.time_remaining()
    return math.inf if left is None else float(left)
