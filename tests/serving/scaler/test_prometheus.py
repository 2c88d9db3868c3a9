"""The same service through a Prometheus server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.serving.scaler.keda_wire import Keda
from tests.serving.scaler.replicas import NUMBERS, Clock, Says, running_scaler


class FakePrometheus(BaseHTTPRequestHandler):
    """Answers the queries of a scaler from what replicas say."""

    def do_GET(self) -> None:
        server = cast(Any, self.server)
        query = parse_qs(urlsplit(self.path).query)["query"][0]
        server.asked.append(query)
        if query.startswith("time() - timestamp("):
            result = [({"pod": pod}, age) for pod, (_, age) in server.pods.items()]
        elif query == "sum(waiting)":
            result = [({}, server.waiting)]
        else:
            result = [
                ({**sample.labels, "__name__": sample.name, "pod": pod}, sample.value)
                for pod, (says, _) in server.pods.items()
                for family in text_string_to_metric_families(says.text())
                for sample in family.samples
            ]
        found = [{"metric": labels, "value": [1.0, str(value)]} for labels, value in result]
        answer = {"status": "success", "data": {"resultType": "vector", "result": found}}
        body = json.dumps(answer).encode() if server.up else b"{"
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@pytest.fixture
def prometheus() -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), FakePrometheus)
    server.pods, server.up, server.asked, server.waiting = {}, True, [], 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def metadata(server: Any, **more: str) -> dict[str, str]:
    return {"prometheus": f"http://127.0.0.1:{server.server_address[1]}", **NUMBERS, **more}


def test_a_service_is_read_through_prometheus(prometheus: Any, clock: Clock) -> None:
    prometheus.pods = {"a": (Says(kv_use=0.95), 5.0), "b": (Says(kv_use=0.95), 5.0)}
    asked = metadata(prometheus, selector='namespace="llm"', modelName="m")
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", asked) == 3
    assert all('model_name="m"' in query and 'namespace="llm"' in query for query in prometheus.asked)


def test_stale_metrics_are_not_read(prometheus: Any, clock: Clock) -> None:
    prometheus.pods = {"a": (Says(), 5.0), "b": (Says(), 5.0)}
    asked = metadata(prometheus, staleSeconds="60")
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        assert keda.replicas("vllm", asked) == 2
        prometheus.pods = {"a": (Says(kv_use=0.99), 300.0), "b": (Says(kv_use=0.99), 300.0)}
        clock.now += 10
        assert keda.replicas("vllm", asked) == 2
        assert service.measurements.counted("proreus_scaler_unreadable", reason="stale") == 2
        assert service.measurements.counted("proreus_scaler_decisions", by="held", reason="dead") == 1
        prometheus.pods["a"] = (Says(kv_use=0.99), 5.0)  # half of them are read again: the rule decides
        clock.now += 10
        keda.replicas("vllm", asked)
        decided = service.measurements.counted("proreus_scaler_decisions", by="rule", reason="unreadable")
        assert decided == 1


def test_a_dead_prometheus_holds_the_last_number(prometheus: Any, clock: Clock) -> None:
    prometheus.pods = {"a": (Says(), 5.0), "b": (Says(), 5.0)}
    asked = metadata(prometheus)
    with running_scaler(clock) as (service, port), Keda(port) as keda:
        assert keda.replicas("vllm", asked) == 2
        prometheus.up = False
        clock.now += 1000
        assert keda.replicas("vllm", asked) == 2
        assert service.measurements.counted("proreus_scaler_unreadable", reason="malformed") == 1


def test_from_nothing_to_one_when_the_router_has_requests(prometheus: Any, clock: Clock) -> None:
    asked = metadata(prometheus, least="0", routerQuery="sum(waiting)")
    with running_scaler(clock) as (_, port), Keda(port) as keda:
        assert keda.replicas("vllm", asked) == 0
        prometheus.waiting = 3
        clock.now += 10
        assert keda.replicas("vllm", asked) == 1
