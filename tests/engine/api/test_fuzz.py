"""Whatever is sent, the API answers with a 2xx, or with a 4xx that is a Status object; never with a 5xx."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance

from proreus.engine.api.server.application import create_app
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.objects.kinds import KINDS, Kind
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.schema.fields import Type, definitions
from proreus.engine.store.memory import MemoryStore
from tests.engine.api.live import live

_EXAMPLES = int(os.environ.get("PROREUS_FUZZ", "400"))
_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_NAMES = st.sampled_from(["a", "b", "default", "A b", "..", "é", "x" * 300, "%2e", "a/b", ""])
_WORDS = st.sampled_from(
    [
        "a",
        "100m",
        "1Gi",
        "-1",
        "Always",
        "Running",
        "2026-01-01T00:00:00Z",
        "50%",
        "1e999",
        "\x00",
        "default",
        "*",
    ]
)


_PARTS = ("status", "scale", "binding", "eviction", "log", "x", "finalize", "exec", "attach", "portforward")
_QUERY = (
    *("dryRun", "limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "fieldManager"),
    *("fieldValidation", "includeObject", "force", "propagationPolicy", "gracePeriodSeconds", "container"),
)
_ASKED = ("All", "1", "-1", "true", "a=b", "a in (b", "metadata.name=a", "Strict", "x", "é\x00")
_TYPES = (
    *("application/json",) * 3,
    *("application/json-patch+json", "application/merge-patch+json") * 2,
    *("application/strategic-merge-patch+json", "application/apply-patch+yaml") * 2,
    *("application/yaml", "text/plain", "application/vnd.kubernetes.protobuf"),
)


def _values(type_: Type, depth: int) -> st.SearchStrategy[Any]:
    """Mostly of the field's type, now and then of another."""
    if depth > 5:
        return _JSON
    if type_.of is not None and type_.word == "[]":
        right: st.SearchStrategy[Any] = st.lists(_values(type_.of, depth + 1), max_size=2)
    elif type_.of is not None:
        right = st.dictionaries(_WORDS | st.text(max_size=5), _values(type_.of, depth + 1), max_size=2)
    elif type_.definition:
        right = st.deferred(lambda: _objects(type_.definition, depth + 1))
    elif type_.word == "bool":
        right = st.booleans()
    elif type_.word in ("int32", "int64", "number"):
        right = st.integers(-5, 5) | st.integers()
    else:
        right = _WORDS | st.integers(0, 9)
    return st.one_of(right, right, right, right, right, _JSON)


def _objects(name: str, depth: int = 0) -> st.SearchStrategy[dict[str, Any]]:
    fields = definitions()[name].fields
    must = {field.name: _values(field.type, depth) for field in fields.values() if field.required}
    may = {field.name: _values(field.type, depth) for field in fields.values() if not field.required}
    # A few of the optional fields at a time: with all of them no object would be right.
    chosen = st.sets(st.sampled_from(sorted(may)), max_size=4) if may else st.just(set())
    return chosen.flatmap(lambda names: st.fixed_dictionaries({**must, **{one: may[one] for one in names}}))


@st.composite
def _requests(draw: st.DrawFn) -> tuple[str, str, bytes, dict[str, str]]:
    kind: Kind = draw(st.sampled_from(KINDS))
    base = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if kind.namespaced and draw(st.booleans()):
        base += "/namespaces/default"
    path = f"{base}/{kind.plural}"
    if draw(st.booleans()):
        path += "/" + draw(_NAMES)
        if draw(st.booleans()):
            path += "/" + draw(
                st.sampled_from(["status", "scale", "binding", "eviction", "log", "x", "finalize"])
            )
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]))
    names = [
        "dryRun",
        "limit",
        "continue",
        "labelSelector",
        "fieldSelector",
        "resourceVersion",
        "fieldManager",
    ]
    names += [
        "fieldValidation",
        "includeObject",
        "force",
        "propagationPolicy",
        "gracePeriodSeconds",
        "container",
    ]
    asked = st.sampled_from(
        ["All", "1", "-1", "true", "a=b", "a in (b", "metadata.name=a", "Strict", "x", "é\x00"]
    )
    query = draw(st.dictionaries(st.sampled_from(names), asked, max_size=3))
    types = ["application/json"] * 3 + [
        "application/yaml",
        "text/plain",
        "application/vnd.kubernetes.protobuf",
    ]
    types += ["application/json-patch+json", "application/merge-patch+json"] * 2
    types += ["application/strategic-merge-patch+json", "application/apply-patch+yaml"] * 2
    body = draw(_bodies(kind))
    headers = {"content-type": draw(st.sampled_from(_TYPES))}
    if draw(st.booleans()):
        headers["accept"] = draw(
            st.sampled_from(["application/json;as=Table;v=v1;g=meta.k8s.io", "text/html", "*/*", ";;=,", "é"])
        )
    return method, str(httpx.URL(path, params=query)), body, headers


def _bodies(kind: Kind) -> st.SearchStrategy[bytes]:
    operations = st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]),
            "path": st.sampled_from(
                ["/metadata/labels/a", "/spec", "/metadata", "", "/spec/containers/0", "x"]
            ),
            "value": _JSON,
            "from": st.sampled_from(["/spec", "/metadata/name", ""]),
        }
    )
    metadata = st.fixed_dictionaries({"name": st.sampled_from(["a", "b"])})
    named = st.tuples(_objects(kind.kind), metadata).map(lambda both: {**both[0], "metadata": both[1]})
    stated = named.map(lambda obj: {**obj, "apiVersion": kind.api_version, "kind": kind.kind})
    documents = stated | named | _objects(kind.kind) | _JSON | st.lists(operations, max_size=3)
    return documents.map(lambda document: json.dumps(document).encode()) | st.binary(max_size=40)


def test_no_request_over_objects_fails_by_our_fault() -> None:
    loop = asyncio.new_event_loop()
    registry = Registry(MemoryStore())
    loop.run_until_complete(registry.prepare())
    transport = httpx.ASGITransport(create_app(registry, ApiOptions()))
    client = httpx.AsyncClient(transport=transport, base_url="http://localhost")

    @settings(max_examples=_EXAMPLES, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(_requests())
    def ask(request: tuple[str, str, bytes, dict[str, str]]) -> None:
        method, url, body, headers = request
        encoded = {name.encode(): value.encode() for name, value in headers.items()}
        answer = loop.run_until_complete(client.request(method, url, content=body, headers=encoded))
        assert answer.status_code < 500, (request, answer.text)
        if answer.status_code >= 400:
            assert answer.json()["kind"] == "Status"
            assert answer.json()["message"]

    try:
        ask()
    finally:
        loop.run_until_complete(client.aclose())
        loop.close()


def test_the_plain_paths_keep_to_their_document() -> None:
    with live() as door:
        document = httpx.get(f"{door.url}/v1/openapi.json").json()
        del document["paths"]["/v1/events"]  # it goes on for ever
        schema = schemathesis.openapi.from_dict(document)

        for operation in schema.get_all_operations():
            _run(operation.ok(), door.url)  # type: ignore[union-attr]


_BY_FURTHER_RULES = {("put", "/v1/schedulers/{name}"), ("post", "/v1/containers")}


def _run(operation: Any, url: str) -> None:
    @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy())
    def conforms(case: schemathesis.Case[Any]) -> None:
        # Neither the names of policies nor the rules of pods are in the document: what is only well written
        # may be refused.
        chooses = (operation.method, operation.path) in _BY_FURTHER_RULES
        left_out: list[Any] = [positive_data_acceptance] if chooses else []
        case.call_and_validate(base_url=url, excluded_checks=left_out)

    conforms()
