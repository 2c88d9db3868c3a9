"""KEDA's external scaler over gRPC: "I want R replicas" is a metric of R with a target of 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import grpc

from proreus.serving.messages import Refused, invalid
from proreus.serving.protos import externalscaler_pb2 as messages
from proreus.serving.scaler.scaled_objects import ScaledObjects
from proreus.serving.server.grpc_base import GrpcBaseServer, GrpcOptions, Guards, not_blocking
from proreus.serving.server.grpc_call_limits import Context, Watchers
from proreus.serving.server.grpc_messages import parse

SCALER = "externalscaler.ExternalScaler"
METRICS_HEALTH = "metrics"
"""The name under which the health check says whether metrics of all objects are read."""
_LONGEST_NAME = 253
_STREAMS, _STREAMS_EACH = 2_048, 1_024
"""KEDA is one client, and keeps two streams for each object."""
Send = Callable[[bytes | None], None]


class ExternalScalerServer(GrpcBaseServer):
    """A gRPC server over scaled objects."""

    services = (SCALER,)

    def __init__(self, objects: ScaledObjects, guards: Guards, options: GrpcOptions) -> None:
        self._objects = objects
        self._streaming: dict[object, Send] = {}
        super().__init__(guards, options)
        self._open_streams = Watchers(_STREAMS, _STREAMS_EACH)
        self.tell_health(METRICS_HEALTH, serving=True)

    def handlers(self) -> Iterator[grpc.GenericRpcHandler]:
        """The one service."""
        unary, stream = grpc.stream_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        yield grpc.method_handlers_generic_handler(
            SCALER,
            {
                "IsActive": unary(self._guarded(self.is_active)),
                "GetMetricSpec": unary(self._guarded(self.metric_spec)),
                "GetMetrics": unary(self._guarded(self.metrics)),
                "StreamIsActive": stream(not_blocking(self.stream_is_active)),
                "StreamMetricSpec": stream(not_blocking(self.stream_metric_spec)),
            },
        )

    def drain(self) -> None:
        """End the streams too, which would never end by themselves; KEDA opens them again elsewhere."""
        super().drain()
        for send in list(self._streaming.values()):
            send(None)

    def is_active(self, data: bytes, context: Context) -> bytes:
        """IsActive: whether any replica is wanted."""
        del context
        _, replicas = self._objects.replicas(*_object(_ref(data)))
        return _active(replicas)

    def metric_spec(self, data: bytes, context: Context) -> bytes:
        """GetMetricSpec: it never changes, but for its name."""
        del context
        return _spec(self._objects.metric(*_object(_ref(data))))

    def metrics(self, data: bytes, context: Context) -> bytes:
        """GetMetrics: as many as are wanted."""
        del context
        asked = parse(messages.GetMetricsRequest.FromString, data)
        metric, replicas = self._objects.replicas(*_object(asked.scaledObjectRef))
        if asked.metricName and asked.metricName != metric:
            raise invalid("metricName", f"{asked.metricName!r} is not {metric!r}, which is what there is")
        value = messages.MetricValue(
            metricName=metric, metricValue=replicas, metricValueFloat=float(replicas)
        )
        metrics: bytes = messages.GetMetricsResponse(metricValues=[value]).SerializeToString()
        return metrics

    def stream_is_active(self, requests: Iterator[bytes], context: Context, send: Send) -> None:
        """StreamIsActive: now, and whenever it changes; holds no thread."""
        said: list[bytes] = []

        def told(replicas: int) -> None:
            answer = _active(replicas)
            if said != [answer]:
                said[:] = [answer]
                send(answer)

        try:
            asked = _object(_ref(self._opened(requests, context, send)))
            stop = self._objects.listen(*asked, told)
        except Refused as refused:
            self._refuse(refused, context)
        except grpc.RpcError as error:
            self._fail(error, context)
        if not context.add_callback(stop):
            stop()

    def stream_metric_spec(self, requests: Iterator[bytes], context: Context, send: Send) -> None:
        """StreamMetricSpec: now; an object whose metadata change is asked for anew by KEDA itself."""
        try:
            asked = _object(_ref(self._opened(requests, context, send)))
            send(_spec(self._objects.metric(*asked)))
        except Refused as refused:
            self._refuse(refused, context)
        except grpc.RpcError as error:
            self._fail(error, context)

    def _opened(self, requests: Iterator[bytes], context: Context, send: Send) -> bytes:
        self._begin(context)
        self._open_streams.enter(context)
        key = object()
        self._streaming[key] = send
        if not context.add_callback(lambda: self._streaming.pop(key, None)):
            del self._streaming[key]
        return self._messages.next(requests, context)


def _ref(data: bytes) -> messages.ScaledObjectRef:
    object_ref: messages.ScaledObjectRef = parse(messages.ScaledObjectRef.FromString, data)
    return object_ref


def _object(ref: messages.ScaledObjectRef) -> tuple[str, str, dict[str, str]]:
    if not ref.name or len(ref.name) > _LONGEST_NAME:
        raise invalid("scaledObjectRef.name", "is missing or too long")
    if len(ref.namespace) > _LONGEST_NAME:
        raise invalid("scaledObjectRef.namespace", "is too long")
    return ref.namespace, ref.name, dict(ref.scalerMetadata)


def _active(replicas: int) -> bytes:
    found: bytes = messages.IsActiveResponse(result=replicas > 0).SerializeToString()
    return found


def _spec(metric: str) -> bytes:
    spec = messages.MetricSpec(metricName=metric, targetSize=1, targetSizeFloat=1.0)
    found: bytes = messages.GetMetricSpecResponse(metricSpecs=[spec]).SerializeToString()
    return found
