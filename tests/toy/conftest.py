"""The toy world is registered while its tests run, as a program would register a world of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gymnasium.envs.registration import registry

from proreus.worlds import WORLDS, register
from tests.cli.conftest import own_place, proreus
from tests.toy import TOY

__all__ = ["own_place", "proreus"]


@pytest.fixture(autouse=True)
def toy_is_registered() -> Iterator[None]:
    """And forgotten after each."""
    register("toy", TOY)
    yield
    del WORLDS["toy"]
    for name in TOY.lanes:
        registry.pop(name, None)
