"""schemathesis reads the published document and tries to break what it describes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from proreus.serving.admission import RequestAdmission
from proreus.serving.decision_service import ServiceOptions
from proreus.serving.server.http import HttpApp
from proreus.serving.server.rest_handlers import RestApi
from tests.serving.door_cases import DIMENSIONS, Doors

_UNSERVED: Any = SimpleNamespace(service=SimpleNamespace(options=ServiceOptions(DIMENSIONS)))
"""What routes look at before anyone asks: pytest wants their names before a service runs."""
OPERATIONS = [
    (path, method.lower()) for path, methods in RestApi(_UNSERVED, 1).routes().items() for method in methods
]
EXAMPLES = int(os.environ.get("PROREUS_FUZZ", "8"))
"""Per call and mode; some hundred find more, in minutes."""
CHECKS = (not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance)


@pytest.fixture(scope="module")
def schema(doors: Doors) -> Iterator[Any]:
    api = RestApi(doors.running.application, 1 << 20)
    app = HttpApp(api.routes(), RequestAdmission(), doors.running.application.service.measurements)
    yield schemathesis.openapi.from_asgi("/openapi.json", app)
    app.close()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
@pytest.mark.parametrize(("path", "method"), OPERATIONS)
def test_everything_described_behaves_as_described(schema: Any, path: str, method: str, mode: Any) -> None:
    operation = schema[path][method]
    takes_input = operation.body or operation.path_parameters
    if mode is GenerationMode.NEGATIVE and not takes_input:
        return  # there is nothing to get wrong

    @settings(
        max_examples=EXAMPLES if takes_input else 2,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: Any) -> None:
        case.call_and_validate(checks=CHECKS)

    check()
