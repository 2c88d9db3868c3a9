"""Kernels are compiled before a test waits for an agent."""

from __future__ import annotations

import pytest

from proreus.engine.scheduler.warm_up import warm_up_scheduling


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    warm_up_scheduling()
