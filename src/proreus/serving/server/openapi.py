"""The OpenAPI 3.1 document of the REST door, made from its routes and the very types that they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from proreus.serving.messages import LARGEST_VERSION, MARK, ErrorAnswer, Refusal
from proreus.serving.online.feedback import LEAST_LOG_PROB, MOST_STEPS
from proreus.serving.online.report_limits import MOST_REWARD
from proreus.serving.server.errors import status_of
from proreus.serving.server.router import JSON, ResponseSpec, Route, Routes, Schema
from proreus.serving.validation import Dimensions
from proreus.version import __version__

Json = dict[str, Any]
_REF = "#/components/schemas/{name}"

_WHY = {
    Refusal.INVALID: "A field is missing, unknown, of the wrong type, length or range; `field` names it.",
    Refusal.UNAUTHENTICATED: "The token is missing or wrong.",
    Refusal.FORBIDDEN: "A web page asks, the name is not the service's, or a change needs a token.",
    Refusal.NOT_FOUND: "There is no such version, or no such session.",
    Refusal.TOO_SLOW: "The body did not come in time.",
    Refusal.CONFLICT: "The version is damaged, does not fit, or there is none before it; the session is at "
    "another generation. Nothing changed.",
    Refusal.TOO_LARGE: "The body is larger than the limit, or asks for more work than one request may.",
    Refusal.WRONG_TYPE: "The content type of the body is another one.",
    Refusal.EXHAUSTED: "Too many requests at once or per second.",
    Refusal.UNAVAILABLE: "The report cannot be logged now, as when the disk is full; nothing of it was.",
}


def openapi_document(routes: Routes, dimensions: Dimensions, body_bytes: int) -> Json:
    """The document of these routes, for a service of these dimensions."""
    _, schemas = msgspec.json.schema_components(dict.fromkeys(_types(routes)), ref_template=_REF)
    _narrow(schemas, dimensions)
    paths = {
        path: {method.lower(): _operation(path, method.lower(), route) for method, route in methods.items()}
        for path, methods in routes.items()
    }
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


def _types(routes: Routes) -> Iterator[type[Any]]:
    """Whatever is read or written as JSON."""
    for methods in routes.values():
        for route in methods.values():
            for schema in (*route.takes.values(), *route.answer.content.values()):
                if isinstance(schema, type):
                    yield schema
    yield ErrorAnswer


def _operation(path: str, method: str, route: Route) -> Json:
    responses: Json = {"200": _response(route.answer)}
    for refusal in route.refusals:
        responses[str(status_of(refusal))] = _response(ResponseSpec(_WHY[refusal], {JSON: ErrorAnswer}))
    name = path.strip("/").replace("{", "").replace("}", "").replace("/", "_").replace(".", "_")
    operation: Json = {"operationId": f"{method}_{name}", "summary": route.summary, "responses": responses}
    if route.takes:
        operation["requestBody"] = {"required": True, "content": _content(route.takes)}
    parameters: list[Json] = []
    if "{version}" in path:
        schema = {"type": "integer", "minimum": 1, "maximum": LARGEST_VERSION}
        parameters.append({"name": "version", "in": "path", "required": True, "schema": schema})
    if route.changes and not route.takes:
        says = f"Any value shows that no web page asks; so does the content type {JSON}, or a token."
        marked = {"name": MARK, "in": "header", "schema": {"type": "string"}, "description": says}
        parameters.append(marked)
    if parameters:
        operation["parameters"] = parameters
    if route.open:
        operation["security"] = []
    return operation


def _narrow(schemas: Json, dimensions: Dimensions) -> None:
    """Put in what the types do not say, most of it because it depends on the size of the cluster."""
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
    update["rewards"]["items"].update(minimum=-MOST_REWARD, maximum=MOST_REWARD)
    _array_of(update["log_probs"])["items"].update(minimum=LEAST_LOG_PROB, maximum=0)
    schemas["VersionAnswer"]["properties"]["state"]["description"] = "live, kept, rejected or damaged"


def _of_type(schema: Json, kind: str) -> Json:
    """The alternative of that type in a schema that also allows null."""
    found: Json = next(option for option in schema["anyOf"] if option.get("type") == kind)
    return found


def _array_of(schema: Json) -> Json:
    return _of_type(schema, "array")


def _response(answer: ResponseSpec) -> Json:
    return {"description": answer.says, "content": _content(answer.content)}


def _content(by_type: Mapping[str, Schema]) -> Json:
    return {media_type: {"schema": _schema(schema)} for media_type, schema in by_type.items()}


def _schema(schema: Schema) -> Json:
    return {"$ref": _REF.format(name=schema.__name__)} if isinstance(schema, type) else schema
