"""Discovery, OpenAPI and protobuf: documents that clients read before they ask for anything."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from proreus.engine.api.k8s.paths import RequestTarget, read_path, segments
from proreus.engine.api.k8s.protobuf.decoder import _table, read_protobuf
from proreus.engine.api.k8s.schemas.descriptions import _descriptions
from proreus.engine.api.k8s.schemas.openapi import groups_3, version_2, version_3
from proreus.engine.api.server.application import create_app
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.objects.errors import BadRequest, NotFound
from proreus.engine.objects.kinds import DEFINITION, DEPLOYMENT, KINDS, MEASURED, NAMESPACE, NODE, POD
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.schema.fields import definitions
from proreus.engine.store.memory import MemoryStore


def _get(path: str, **headers: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        registry = Registry(MemoryStore())
        transport = httpx.ASGITransport(create_app(registry, ApiOptions()))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


def test_every_kind_is_discovered_in_both_forms() -> None:
    plain = set()
    kinds = (*KINDS, *MEASURED, DEFINITION)
    grouped = [kind for kind in kinds if kind.group]
    for group in ("/api/v1", *(f"/apis/{kind.group}/{kind.version}" for kind in grouped)):
        plain |= {
            resource["kind"] for resource in _get(group).json()["resources"] if "/" not in resource["name"]
        }
    assert {kind.kind for kind in kinds} <= plain
    form = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    whole = [_get(path, accept=form).json() for path in ("/api", "/apis")]
    told = {
        resource["responseKind"]["kind"]
        for document in whole
        for group in document["items"]
        for version in group["versions"]
        for resource in version["resources"]
    }
    reviews = {"SelfSubjectAccessReview", "SelfSubjectRulesReview", "SelfSubjectReview"}
    assert told == plain | reviews


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/api/v1/pods", RequestTarget(POD)),
        ("/api/v1/namespaces/a/pods/b", RequestTarget(POD, "a", "b")),
        ("/api/v1/namespaces/a/pods/b/log", RequestTarget(POD, "a", "b", "log")),
        ("/api/v1/namespaces/a", RequestTarget(NAMESPACE, "", "a")),
        ("/api/v1/namespaces/a/status", RequestTarget(NAMESPACE, "", "a", "status")),
        ("/api/v1/nodes/n", RequestTarget(NODE, "", "n")),
        ("/apis/apps/v1/namespaces/a/deployments", RequestTarget(DEPLOYMENT, "a")),
    ],
)
def test_paths_are_read(path: str, found: RequestTarget) -> None:
    assert read_path(segments(path.encode())) == found


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/pods/b",
        "/api/v1/things",
        "/api/v1/namespaces/a/nodes",
        "/apis/apps/v2/deployments",
    ],
)
def test_paths_to_nothing_are_not_found(path: str) -> None:
    with pytest.raises(NotFound):
        read_path(segments(path.encode()))


def test_an_encoded_slash_leads_nowhere() -> None:
    for raw in (b"/api/v1/namespaces/a%2fb/pods", b"/api/v1/namespaces/%2e%2e/pods", b"/api/%ff"):
        with pytest.raises(BadRequest):
            segments(raw)


def _references(found: Any) -> set[str]:
    if isinstance(found, dict):
        own = {found["$ref"]} if isinstance(found.get("$ref"), str) else set()
        return own.union(*(_references(one) for one in found.values()))
    return set().union(*(_references(one) for one in found)) if isinstance(found, list) else set()


def test_openapi_refers_to_nothing_that_is_not_there() -> None:
    two = version_2()
    assert {reference.removeprefix("#/definitions/") for reference in _references(two)} <= set(
        two["definitions"]
    )
    for path in groups_3():
        three = version_3(path)
        names = {reference.removeprefix("#/components/schemas/") for reference in _references(three)}
        assert names <= set(three["components"]["schemas"])


def test_what_is_said_of_fields_is_of_fields_that_are() -> None:
    for name, (_, fields) in _descriptions().items():
        assert set(fields) <= set(definitions()[name].fields)


def test_every_field_has_a_number() -> None:
    """But for the two that the envelope holds, and what the public messages leave out."""
    table = _table()
    for name, definition in definitions().items():
        if name not in table:
            assert "v1alpha" in definition.package
            continue
        own = {one.name for one in table[name].values() if one.type is not None}
        for one in table[name].values():
            if one.type is None:
                own |= {inner.name for inner in table[one.name].values()}
        missing = set(definition.fields) - own - {"kind", "apiVersion"}
        assert missing <= {"runningInUserNamespace"}, name


def _varint(value: int) -> bytes:
    return bytes([value & 127 | 128, value >> 7]) if value > 127 else bytes([value])


def _field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def test_protobuf_is_read_as_the_object_it_is() -> None:
    """Numbers of the public messages, written out here by hand."""
    probe = _field(1, _field(2, _field(1, b"/live") + _field(2, _field(1, 0) + _field(2, 80))))
    quantity = _field(1, b"cpu") + _field(2, _field(1, b"100m"))
    container = _field(1, b"c") + _field(2, b"nginx") + _field(8, _field(2, quantity)) + _field(10, probe)
    volume = _field(1, b"v") + _field(2, _field(2, b""))
    spec = _field(1, volume) + _field(2, container) + _field(4, 5)
    metadata = _field(1, b"web") + _field(11, _field(1, b"app") + _field(2, b"web"))
    pod = _field(1, metadata) + _field(2, spec)
    envelope = b"k8s\0" + _field(1, _field(1, b"v1") + _field(2, b"Pod")) + _field(2, pod)
    assert read_protobuf(envelope) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "c",
                    "image": "nginx",
                    "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {"httpGet": {"path": "/live", "port": 80}},
                }
            ],
            "terminationGracePeriodSeconds": 5,
        },
    }


def test_protobuf_leaves_out_the_zeros_that_json_leaves_out() -> None:
    """Go writes 0 and false of everything but pointers; of these, and where JSON has them, they are meant."""
    port = _field(2, 0) + _field(3, 0)
    security = _field(2, 0)
    container = _field(1, b"c") + _field(6, port) + _field(15, security) + _field(16, 0) + _field(18, 0)
    template = _field(2, _field(2, container) + _field(4, 0) + _field(11, 0))
    spec = _field(1, 0) + _field(3, template) + _field(5, 0) + _field(7, 0)
    deployment = _field(1, _field(1, b"web") + _field(7, 0)) + _field(2, spec)
    envelope = b"k8s\0" + _field(1, _field(1, b"apps/v1") + _field(2, b"Deployment")) + _field(2, deployment)
    assert read_protobuf(envelope) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "ports": [{"containerPort": 0}],
                            "securityContext": {"privileged": False},
                        }
                    ],
                    "terminationGracePeriodSeconds": 0,
                }
            },
        },
    }


@pytest.mark.parametrize("body", [b"", b"k8s\0", b"k8s\0\x0a\xff", b"k8s\0" + b"\xff" * 40, b"{}"])
def test_broken_protobuf_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_protobuf(body)
