"""KEDA's side of the wire, made from its published definition alone: field numbers here, bytes on the wire.

Nothing of the project's own message types is used, so that a wrong number in them cannot agree with itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

SERVICE = "externalscaler.ExternalScaler"
_STRING, _INT64, _DOUBLE, _BOOL, _MESSAGE = 9, 3, 1, 8, 11
_FIELDS: dict[str, list[tuple[str, int, int, str]]] = {
    "ScaledObjectRef": [
        ("name", 1, _STRING, ""),
        ("namespace", 2, _STRING, ""),
        ("scalerMetadata", 3, _MESSAGE, "*ScalerMetadataEntry"),
    ],
    "IsActiveResponse": [("result", 1, _BOOL, "")],
    "GetMetricSpecResponse": [("metricSpecs", 1, _MESSAGE, "*MetricSpec")],
    "MetricSpec": [
        ("metricName", 1, _STRING, ""),
        ("targetSize", 2, _INT64, ""),
        ("targetSizeFloat", 3, _DOUBLE, ""),
    ],
    "GetMetricsRequest": [
        ("scaledObjectRef", 1, _MESSAGE, "ScaledObjectRef"),
        ("metricName", 2, _STRING, ""),
    ],
    "GetMetricsResponse": [("metricValues", 1, _MESSAGE, "*MetricValue")],
    "MetricValue": [
        ("metricName", 1, _STRING, ""),
        ("metricValue", 2, _INT64, ""),
        ("metricValueFloat", 3, _DOUBLE, ""),
    ],
    "ScalerMetadataEntry": [("key", 1, _STRING, ""), ("value", 2, _STRING, "")],
}


def _types() -> dict[str, Any]:
    """A package of its own, in a pool of its own: on the wire names do not matter, numbers do."""
    file = descriptor_pb2.FileDescriptorProto(name="keda_as_published.proto", package="keda", syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, number, kind, of in fields:
            label = 3 if of.startswith("*") else 1
            type_name = f".keda.{of.lstrip('*')}" if of else None
            message.field.add(name=field, number=number, type=kind, label=label, type_name=type_name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"keda.{name}")) for name in _FIELDS
    }


TYPES = _types()


def reference(name: str, metadata: dict[str, str], namespace: str = "llm") -> bytes:
    """A ScaledObjectRef."""
    message = TYPES["ScaledObjectRef"](name=name, namespace=namespace)
    for key, value in metadata.items():
        message.scalerMetadata.add(key=key, value=value)
    reference: bytes = message.SerializeToString()
    return reference


class Keda:
    """Asks in bytes."""

    def __init__(self, port: int) -> None:
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")

    def __enter__(self) -> Keda:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def call(self, method: str, request: bytes) -> bytes:
        """One answer."""
        answer: bytes = self._channel.unary_unary(f"/{SERVICE}/{method}")(request, timeout=60.0)
        return answer

    def stream(self, method: str, request: bytes) -> Iterator[bytes]:
        """Answers as they come."""
        stream: Iterator[bytes] = self._channel.unary_stream(f"/{SERVICE}/{method}")(request, timeout=60.0)
        return stream

    def spec(self, name: str, metadata: dict[str, str]) -> Any:
        """The one specification."""
        answer = TYPES["GetMetricSpecResponse"].FromString(
            self.call("GetMetricSpec", reference(name, metadata))
        )
        return answer.metricSpecs[0]

    def value(self, name: str, metadata: dict[str, str], metric: str = "") -> Any:
        """The one value."""
        ref = TYPES["ScaledObjectRef"].FromString(reference(name, metadata))
        asked = TYPES["GetMetricsRequest"](scaledObjectRef=ref, metricName=metric)
        answer = TYPES["GetMetricsResponse"].FromString(self.call("GetMetrics", asked.SerializeToString()))
        return answer.metricValues[0]

    def replicas(self, name: str, metadata: dict[str, str]) -> int:
        """As the autoscaler reads it."""
        return int(self.value(name, metadata).metricValueFloat)
