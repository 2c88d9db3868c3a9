"""The benchmark's generator of load: it counts answers, not wishes."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import numpy as np
import pytest

from proreus.bench.load import LoadPlan, generate_load
from proreus.bench.serve_peer import make_app
from proreus.serving.protos import scheduler_pb2
from proreus.serving.validation import Dimensions
from tests.serving.door_cases import Doors, open_doors, serving_options


def plan(doors: Doors, protocol: str, state: list[float], clients: int = 3) -> LoadPlan:
    grpc = protocol == "grpc"
    body = (
        scheduler_pb2.StateRequest(state=state).SerializeToString()
        if grpc
        else json.dumps({"state": state}).encode()
    )
    return LoadPlan(
        "127.0.0.1",
        doors.grpc if grpc else doors.rest,
        "/scheduler.Scheduler/Predict" if grpc else "/predict",
        (base64.b64encode(body).decode(),),
        protocol=protocol,
        clients=clients,
        seconds=0.4,
        warm_seconds=0.05,
    )


@pytest.mark.parametrize("protocol", ["http1", "grpc"])
def test_answers_are_counted_as_the_service_counts_them(doors: Doors, protocol: str) -> None:
    service = doors.running.application.service
    before = len(service.recent)
    state = np.random.default_rng().random(6).tolist()
    result = generate_load(plan(doors, protocol, state))
    assert result.failures == 0 and result.requests > 20
    assert 0 < result.p50 <= result.p99 < 0.5
    assert len(service.recent) > before


@pytest.mark.parametrize("protocol", ["http1", "grpc"])
def test_refusals_are_failures(doors: Doors, protocol: str) -> None:
    result = generate_load(plan(doors, protocol, [0.5] * 5))
    assert result.requests == 0 and result.failures > 20


def test_states_larger_than_a_window_go_through(tmp_path: Path) -> None:
    nodes = 6_000  # 96 kB of doubles; a stream's first window is 64 kB
    wide = open_doors(serving_options(tmp_path, service={"dimensions": Dimensions(2 * nodes, 2 * nodes + 2)}))
    try:
        for protocol in ("http1", "grpc"):
            result = generate_load(plan(wide, protocol, [0.5] * 2 * nodes, clients=1))
            assert result.failures == 0 and result.requests > 0
    finally:
        wide.running.stop(1.0)


def test_the_peer_answers_as_document_000_says() -> None:
    client = make_app(14, 16).test_client()
    assert client.get("/health").json == {"status": "ok"}
    answer = client.post("/predict", json={"state": [0.5] * 14})
    assert answer.json is not None and 0 <= answer.json["action"] < 16
    assert client.post("/predict", json={"state": [0.5]}).status_code == 400
