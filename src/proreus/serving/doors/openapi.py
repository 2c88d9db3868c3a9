"""The OpenAPI 3.1 document of the REST door, made from the very types that requests are read into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from proreus.serving.checks import Dimensions
from proreus.serving.doors.http import BYTES, JSON, status_of
from proreus.serving.named.wire import DecideAnswer, DecideRequest
from proreus.serving.online.feedback import MOST_STEPS
from proreus.serving.values import (
    BatchAnswer,
    BatchRequest,
    ErrorAnswer,
    Health,
    ModelsAnswer,
    PredictAnswer,
    PredictRequest,
    Refusal,
    SwapAnswer,
    UpdateAnswer,
    UpdateRequest,
    VersionAnswer,
)
from proreus.version import __version__

Json = dict[str, Any]

_WHY = {
    Refusal.INVALID: "A field is missing, unknown, of the wrong type, length or range; `field` names it.",
    Refusal.UNAUTHENTICATED: "The token is missing or wrong.",
    Refusal.NOT_FOUND: "There is no such version.",
    Refusal.TOO_SLOW: "The body did not come in time.",
    Refusal.CONFLICT: "The version is damaged, does not fit, or there is none before it; nothing changed.",
    Refusal.TOO_LARGE: "The body is larger than the limit.",
    Refusal.WRONG_TYPE: "The content type of the body is another one.",
    Refusal.EXHAUSTED: "Too many requests at once or per second.",
}
_ANY_REQUEST = (Refusal.UNAUTHENTICATED, Refusal.EXHAUSTED)
_ANY_BODY = (*_ANY_REQUEST, Refusal.INVALID, Refusal.TOO_SLOW, Refusal.TOO_LARGE, Refusal.WRONG_TYPE)
_TYPES = (
    PredictRequest,
    PredictAnswer,
    BatchRequest,
    BatchAnswer,
    UpdateRequest,
    UpdateAnswer,
    DecideRequest,
    DecideAnswer,
    ModelsAnswer,
    VersionAnswer,
    SwapAnswer,
    Health,
    ErrorAnswer,
)


@dataclass(frozen=True)
class _Call:
    """One method of one path."""

    path: str
    method: str
    summary: str
    answer: Json
    body: Json | None = None
    refusals: Sequence[Refusal] = _ANY_REQUEST
    open: bool = False


def openapi_document(dimensions: Dimensions, body_bytes: int) -> Json:
    """The document, for a service of these dimensions."""
    _, schemas = msgspec.json.schema_components(_TYPES, ref_template="#/components/schemas/{name}")
    _narrow(schemas, dimensions)
    paths: Json = {}
    for call in _calls(dimensions):
        paths.setdefault(call.path, {})[call.method] = _operation(call)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Proreus decision service",
            "version": __version__,
            "description": f"Decisions for a cluster of {dimensions.nodes} nodes; /v1/decide for any size. "
            f"Bodies are at most {body_bytes} bytes long. Every answer has a header x-request-id; a request "
            "may bring its own, and a deadline in milliseconds as x-deadline-ms.",
        },
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _calls(dimensions: Dimensions) -> list[_Call]:
    predict = _Call(
        "/predict",
        "post",
        "Decide on one state.",
        _json("PredictAnswer", "The decision."),
        _content({JSON: _ref("PredictRequest")}),
        _ANY_BODY,
    )
    update = _Call(
        "/update",
        "post",
        "Report experience to learn from.",
        _json("UpdateAnswer", "The experience is on the disk."),
        _content({JSON: _ref("UpdateRequest")}),
        _ANY_BODY,
    )
    text = {
        "description": "Prometheus' text format.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
    block = {
        "type": "string",
        "format": "binary",
        "description": f"Little-endian doubles, {dimensions.state} for each state.",
    }
    records = {
        "type": "string",
        "format": "binary",
        "description": "Per state a little-endian int64 (action) and double (log_prob).",
    }
    return [
        predict,
        update,
        _Call(
            "/health",
            "get",
            "Whether the service answers.",
            _json("Health", "It does."),
            open=True,
            refusals=(),
        ),
        _Call("/metrics", "get", "What was counted and measured.", text),
        _Call(
            "/openapi.json",
            "get",
            "This document.",
            {"description": "OpenAPI 3.1.", "content": {JSON: {"schema": {"type": "object"}}}},
        ),
        replace(predict, path="/v1/predict"),
        _Call(
            "/v1/predict/batch",
            "post",
            "Decide on many states at once, by one version.",
            {
                "description": "The decisions, in the form of the request; with bytes the version is in the "
                "header x-model-version.",
                "content": {JSON: {"schema": _ref("BatchAnswer")}, BYTES: {"schema": records}},
            },
            _content({JSON: _ref("BatchRequest"), BYTES: block}),
            _ANY_BODY,
        ),
        replace(update, path="/v1/update"),
        _Call(
            "/v1/decide",
            "post",
            "Decide about a pod in a cluster of any size, described in named fields.",
            _json("DecideAnswer", "The decision, with reasons."),
            _content({JSON: _ref("DecideRequest")}),
            _ANY_BODY,
        ),
        _Call("/v1/metrics", "get", "What was counted and measured.", text),
        _Call("/v1/models", "get", "All versions of the model.", _json("ModelsAnswer", "Oldest first.")),
        _Call(
            "/v1/models/rollback",
            "post",
            "Make the version live again that was live before.",
            _json("SwapAnswer", "It is live."),
            refusals=(*_ANY_REQUEST, Refusal.CONFLICT),
        ),
        _Call(
            "/v1/models/{version}",
            "get",
            "One version.",
            _json("VersionAnswer", "What is known of it."),
            refusals=(*_ANY_REQUEST, Refusal.NOT_FOUND, Refusal.CONFLICT),
        ),
        _Call(
            "/v1/models/{version}/promote",
            "post",
            "Make a version live.",
            _json("SwapAnswer", "It is live."),
            refusals=(*_ANY_REQUEST, Refusal.NOT_FOUND, Refusal.CONFLICT),
        ),
    ]


def _operation(call: _Call) -> Json:
    responses: Json = {"200": call.answer}
    for refusal in call.refusals:
        responses[str(status_of(refusal))] = _json("ErrorAnswer", _WHY[refusal])
    name = call.path.strip("/").replace("{", "").replace("}", "").replace("/", "_").replace(".", "_")
    operation: Json = {
        "operationId": f"{call.method}_{name}",
        "summary": call.summary,
        "responses": responses,
    }
    if call.body is not None:
        operation["requestBody"] = {"required": True, "content": call.body}
    if "{version}" in call.path:
        schema = {"type": "integer", "minimum": 1, "maximum": 2**62}
        operation["parameters"] = [{"name": "version", "in": "path", "required": True, "schema": schema}]
    if call.open:
        operation["security"] = []
    return operation


def _narrow(schemas: Json, dimensions: Dimensions) -> None:
    """Put in what depends on the size of the cluster."""
    lengths = [{"minItems": length, "maxItems": length} for length in dimensions.lengths]
    actions, last = dimensions.actions, dimensions.actions - 1
    predict, batch = schemas["PredictRequest"]["properties"], schemas["BatchRequest"]["properties"]
    update = schemas["UpdateRequest"]["properties"]
    predict["state"]["oneOf"] = lengths
    _array_of(predict["mask"]).update(minItems=actions, maxItems=actions, contains={"const": True})
    _of_type(predict["top_k"], "integer").update(minimum=1, maximum=actions)
    batch["states"].update(minItems=1)
    batch["states"]["items"]["oneOf"] = lengths
    _array_of(batch["masks"])["items"].update(minItems=actions, maxItems=actions, contains={"const": True})
    for column in ("states", "actions", "rewards", "dones"):
        update[column].update(minItems=1, maxItems=MOST_STEPS)
    update["states"]["items"]["oneOf"] = lengths
    update["actions"]["items"].update(minimum=0, maximum=last)
    _array_of(update["log_probs"])["items"].update(maximum=0)


def _of_type(schema: Json, kind: str) -> Json:
    """The alternative of that type in a schema that also allows null."""
    found: Json = next(option for option in schema["anyOf"] if option.get("type") == kind)
    return found


def _array_of(schema: Json) -> Json:
    return _of_type(schema, "array")


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(name: str, description: str) -> Json:
    return {"description": description, "content": {JSON: {"schema": _ref(name)}}}


def _content(by_type: Json) -> Json:
    return {media_type: {"schema": schema} for media_type, schema in by_type.items()}
