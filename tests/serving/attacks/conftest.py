"""One service process for all attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving.attacks.harness import Attacked
from tests.serving.door_cases import fresh_checkpoint
from tests.serving.service_process import ServiceProcess

WORDS = ("--grpc_port", "0", "--state_dim", "6", "--action_dim", "8", "--no-learn", "--store", "store")


@pytest.fixture(scope="package")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Three nodes, both doors, nothing learns; `kube` decides in named fields."""
    folder = tmp_path_factory.mktemp("attacked")
    fresh_checkpoint(folder / "fresh")
    words = (*WORDS, "--model", "fresh/", "--policy", "kube", "--log-level", "info", "--deadline-ms", "5000")
    service = ServiceProcess(folder, "all", *words)
    yield Attacked(service)
    assert service.end() == 0
