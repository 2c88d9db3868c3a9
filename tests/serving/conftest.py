"""One running service for the tests that only ask it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.serving.door_cases import Doors, open_doors, serving_options


@pytest.fixture(scope="package")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    """Three nodes, an untrained model, both doors, nothing learns."""
    # However busy the machine is: the model decides, and not the rule that stands in for a slow one.
    patient = {"deadline_seconds": 60.0}
    found = open_doors(serving_options(tmp_path_factory.mktemp("service"), service=patient))
    yield found
    found.running.stop(2.0)
