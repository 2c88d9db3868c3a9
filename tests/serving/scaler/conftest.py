"""Servers of fake replicas, and a clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("grpc", reason="the service needs the extra `serve`")

from tests.serving.scaler.replicas import Clock, FakeReplicas


@pytest.fixture
def fake() -> Iterator[FakeReplicas]:
    server = FakeReplicas()
    yield server
    server.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()
