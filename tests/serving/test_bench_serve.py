"""`proreus bench serve` over the tests' own service: the rows it promises, with their goals."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from proreus.bench import serve
from tests.serving.door_cases import NODES, Doors


def test_every_claim_has_its_row(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def service(folder: Path, nodes: int) -> Iterator[dict[str, int]]:
        yield {"pid": os.getpid(), "rest": doors.rest, "grpc": doors.grpc}

    @contextlib.contextmanager
    def peer(nodes: int) -> Iterator[tuple[int, int]]:
        yield doors.rest, os.getpid()

    for name, value in {
        "_service": service,
        "_flask": peer,
        "SIZES": (NODES,),
        "CLIENTS": 4,
        "BATCH": 50,
        "P99_NODES": NODES,
        "MODEL_GOALS": {NODES: 10.0},
        "_ROUNDS": 1,
        "_SECONDS": 0.2,
        "_LATENCY_SECONDS": 0.2,
        "_MODEL_SECONDS": 0.1,
    }.items():
        monkeypatch.setattr(serve, name, value)
    messages: list[str] = []
    rows = {row.what: row for row in serve.bench_serve(None, messages.append)}
    assert messages
    for door in ("rest", "grpc"):
        rate = rows[f"{door}, 4 clients, 6 inputs"]
        assert rate.peer is not None and rate.goal is not None
        assert rate.goal == pytest.approx(10.0 * rate.peer)
        assert rate.ok is (rate.ours >= rate.goal)
        assert rows[f"{door}, 4 clients, CPU of the server per request"].ours > 0
        p50, p99 = (rows[f"{door}, one client, {NODES} nodes, {what}"] for what in ("p50", "p99"))
        assert 0 < p50.ours <= p99.ours and p99.goal == 2.0 and p50.goal is None
    beside, late = rows["grpc beside rest, 4 clients"], rows["grpc beside rest, 4 clients, p99"]
    assert beside.goal == beside.peer == rows["rest, 4 clients, 6 inputs"].ours
    assert beside.goal is not None and beside.ok is (beside.ours >= beside.goal)
    assert late.goal is not None and late.ok is (late.ours <= late.goal)
    assert rows["grpc by grpcio's client, 4 calls at once"].ours > 0
    assert rows["rest, batches of 50 in bytes, 6 inputs"].goal == 500_000
    assert rows[f"the model alone, {NODES} nodes, p50"].goal == 10.0
