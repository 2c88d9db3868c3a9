"""One control plane for the tests of this folder that share it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kube.control_plane import ControlPlane, control_plane


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A real API server, empty when the first test of a module comes."""
    with control_plane(tmp_path_factory.mktemp("plane")) as running:
        yield running
