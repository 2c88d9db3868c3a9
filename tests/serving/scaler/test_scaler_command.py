"""`proreus serve scaler` as a process: it looks by itself, says what it does, and ends when told to."""

from __future__ import annotations

import signal
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2

from tests.certificates import make_certificate
from tests.serving.scaler.keda_wire import Keda, reference
from tests.serving.scaler.replicas import NUMBERS, FakeReplicas, Says
from tests.serving.service_process import ServiceProcess

PATIENCE = 60.0
STARTS = 'proreus_scaler_start_seconds{object="llm/vllm",pool="mixed"}'


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def said(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60.0) as answer:
        text: str = answer.read().decode()
        return text


def health(port: int, name: str) -> int:
    request = health_pb2.HealthCheckRequest(service=name).SerializeToString()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = channel.unary_unary("/grpc.health.v1.Health/Check")(request, timeout=60.0)
    return int(health_pb2.HealthCheckResponse.FromString(answer).status)


def test_it_scales_by_itself_and_ends_when_told(fake: FakeReplicas, tmp_path: Path) -> None:
    fake.places["a"] = Says(kv_use=0.95)
    metadata = {**NUMBERS, "metrics": fake.urls("a", "b"), "interval": "0.5", "most": "3"}
    process = ServiceProcess(tmp_path, "scaler", "--http-port", "0", "--log-level", "info")
    try:
        port, http = process.grpc, int(process.about["http"]["port"])
        with Keda(port) as keda:
            stream = keda.stream("StreamIsActive", reference("vllm", metadata))
            assert next(stream) == b"\x08\x01"
            assert keda.replicas("vllm", metadata) == 2
            fake.places["b"] = Says()  # nobody asks, and yet it is seen
            eventually(
                lambda: 'start_seconds{object="llm/vllm",pool="mixed"} 135.0' not in said(http, "/metrics")
            )
            assert said(http, "/health") == '{"status":"ok","trouble":""}'
            assert health(port, "metrics") == health_pb2.HealthCheckResponse.SERVING
            fake.places.clear()
            eventually(lambda: "degraded" in said(http, "/health"))
            eventually(lambda: health(port, "metrics") == health_pb2.HealthCheckResponse.NOT_SERVING)
            assert health(port, "") == health_pb2.HealthCheckResponse.SERVING
            assert keda.replicas("vllm", metadata) == 2
            assert 'proreus_scaler_replicas{object="llm/vllm",pool="mixed"} 2.0' in said(http, "/metrics")
            began = time.monotonic()
            assert process.end(signal.SIGTERM) == 0
            assert list(stream) == []
            assert time.monotonic() - began < 40  # an open stream holds nobody up
    finally:
        process.kill()
    assert "no replica answers" in (tmp_path / "stderr.txt").read_text()


def test_only_who_has_a_certificate_is_answered(fake: FakeReplicas, tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)
    fake.places["a"] = Says()
    words = ("--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(certificate))
    process = ServiceProcess(tmp_path, "scaler", "--http-port", "0", *words)
    try:
        request = reference("vllm", {**NUMBERS, "metrics": fake.urls("a")})
        root = certificate.read_bytes()
        for shown, code in (((key.read_bytes(), root), None), ((None, None), grpc.StatusCode.UNAVAILABLE)):
            credentials = grpc.ssl_channel_credentials(root, *shown)
            with grpc.secure_channel(f"localhost:{process.grpc}", credentials) as channel:
                ask = channel.unary_unary("/externalscaler.ExternalScaler/IsActive")
                if code is None:
                    assert ask(request, timeout=60.0) == b"\x08\x01"
                else:
                    with pytest.raises(grpc.RpcError) as refused:
                        ask(request, timeout=60.0)
                    assert refused.value.code() is code
        assert process.end() == 0
    finally:
        process.kill()
