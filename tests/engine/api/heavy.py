"""Requests that are small to send and long to work on: each is set up once, then sent again and again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

_CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
_PODS = "/api/v1/namespaces/default/pods"
_JSON_PATCH = "application/json-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Heavy:
    """One of them."""

    name: str
    method: str
    path: str
    body: Callable[[], bytes]
    type: str = "application/json"
    setup: Callable[[httpx.Client], None] = lambda _: None
    codes: tuple[int, ...] = (200, 201)
    """What it is answered with, besides 429 where too many are sent at once."""

    def send(self, client: httpx.Client, body: bytes) -> httpx.Response:
        """Once."""
        return client.request(self.method, self.path, content=body, headers={"content-type": self.type})


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    full = {"schedulerName": "nobody", "containers": [{"name": "c", "image": "i"}], **spec}
    return {"metadata": {"name": name}, "spec": full}


def _map(name: str, count: int, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {f"k{number}": "" for number in range(count)},
    }


def _created(path: str, body: Any) -> Callable[[httpx.Client], None]:
    def setup(client: httpx.Client) -> None:
        answer = client.post(path, content=_json(body), headers={"content-type": "application/json"})
        assert answer.status_code in (201, 409), answer.text[:500]

    return setup


def _applied(name: str, count: int) -> Callable[[httpx.Client], None]:
    def setup(client: httpx.Client) -> None:
        answer = client.patch(
            f"{_CONFIG_MAPS}/{name}?fieldManager=me&force=true",
            content=_json(_map(name, count)),
            headers={"content-type": _APPLY},
        )
        assert answer.status_code in (200, 201), answer.text[:500]

    return setup


def _many(count: int) -> Callable[[httpx.Client], None]:
    def setup(client: httpx.Client) -> None:
        for number in range(count):
            _created(_CONFIG_MAPS, {"metadata": {"name": f"many-{number}", "labels": {"a": "b"}}})(client)

    return setup


_ENVIRONMENT = [{"name": f"e{number}"} for number in range(12_000)]
_STEPS = [{"name": f"s{number}", "value": "x"} for number in range(12_000)]
_COPIES = [
    {"op": "add", "path": "/metadata/annotations", "value": {}},
    {"op": "add", "path": "/x", "value": [[]] * 45},
    *({"op": "copy", "from": "/x", "path": f"/y{number}"} for number in range(9_990)),
]
_TOLERATIONS = [{"key": f"t{number}", "operator": "Exists"} for number in range(15_000)]
_FINALIZERS = [f"a.b/f{number}" for number in range(30_000)]
_LABELS = {f"l{number}": "v" for number in range(60_000)}
_TERMS = ",".join(f"!x{number}" for number in range(7_000))
_YAML = "".join(f"  k{number}: v\n" for number in range(24_000))


def _protobuf() -> bytes:
    kind = b"\x0a\x02v1\x12\x09ConfigMap"
    raw = b"\x0a\x00" * 700_000
    size = len(raw)
    length = bytes((size & 127 | 128, size >> 7 & 127 | 128, size >> 14 & 127 | 128, size >> 21))
    return b"k8s\x00\x0a" + bytes((len(kind),)) + kind + b"\x12" + length + raw


HEAVY = (
    Heavy(
        "strategic merge of 12,000 entries on 12,000",
        "PATCH",
        f"{_PODS}/merged?dryRun=All",
        lambda: _json({"spec": {"containers": [{"name": "c", "env": _ENVIRONMENT[::-1]}]}}),
        _STRATEGIC,
        _created(_PODS, _pod("merged", containers=[{"name": "c", "image": "i", "env": _STEPS}])),
        (422,),
    ),
    Heavy(
        "YAML of 300 KiB",
        "PATCH",
        f"{_CONFIG_MAPS}/yaml?fieldManager=me&force=true&dryRun=All",
        lambda: f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: yaml}}\ndata:\n{_YAML}".encode(),
        _APPLY,
    ),
    Heavy(
        "YAML of powers of 60",
        "PATCH",
        f"{_CONFIG_MAPS}/yaml?fieldManager=me&dryRun=All",
        lambda: b"a: 1" + b":59" * 100_000,
        _APPLY,
        codes=(400,),
    ),
    Heavy(
        "apply that drops 3,000 keys",
        "PATCH",
        f"{_CONFIG_MAPS}/dropped?fieldManager=me&dryRun=All",
        lambda: _json(_map("dropped", 0)),
        _APPLY,
        _applied("dropped", 3_000),
    ),
    Heavy(
        "apply that drops 20,000 keys",
        "PATCH",
        f"{_CONFIG_MAPS}/dropped-more?fieldManager=me&dryRun=All",
        lambda: _json(_map("dropped-more", 0)),
        _APPLY,
        _applied("dropped-more", 20_000),
    ),
    Heavy(
        "JSON patch of 10,000 copies",
        "PATCH",
        f"{_CONFIG_MAPS}/copied?dryRun=All",
        lambda: _json(_COPIES),
        _JSON_PATCH,
        _created(_CONFIG_MAPS, _map("copied", 1)),
    ),
    Heavy(
        "JSON patch that nests",
        "PATCH",
        f"{_CONFIG_MAPS}/copied?dryRun=All",
        lambda: _json([{"op": "add", "path": "/x" * depth, "value": {}} for depth in range(1, 1_200)]),
        _JSON_PATCH,
        _created(_CONFIG_MAPS, _map("copied", 1)),
        (400,),
    ),
    Heavy(
        "tolerations that change, 15,000 of 15,000",
        "PATCH",
        f"{_PODS}/tolerant?dryRun=All",
        lambda: _json({"spec": {"tolerations": _TOLERATIONS[::-1]}}),
        _MERGE,
        _created(_PODS, _pod("tolerant", tolerations=_TOLERATIONS)),
        (200, 422),
    ),
    Heavy(
        "finalizers, 30,000 on 30,000",
        "PATCH",
        f"{_CONFIG_MAPS}/final?dryRun=All",
        lambda: _json({"metadata": {"finalizers": _FINALIZERS[::-1]}}),
        _STRATEGIC,
        _created(_CONFIG_MAPS, _map("final", 0, finalizers=_FINALIZERS)),
    ),
    Heavy("60,000 labels", "POST", f"{_CONFIG_MAPS}?dryRun=All", lambda: _json(_map("a", 0, labels=_LABELS))),
    Heavy(
        "50,000 fields that are wrong",
        "POST",
        f"{_CONFIG_MAPS}?dryRun=All",
        lambda: _json(_map("a", 0, labels={f"l{number}!": "v" for number in range(50_000)})),
        codes=(422,),
    ),
    Heavy(
        "90,000 fields that are unknown",
        "POST",
        f"{_CONFIG_MAPS}?dryRun=All",
        lambda: _json({**_map("a", 0), **{f"u{number}": 0 for number in range(90_000)}}),
    ),
    Heavy(
        "a million lists",
        "POST",
        _CONFIG_MAPS,
        lambda: b"[" + b"[]," * 1_000_000 + b"[]]",
        codes=(413,),
    ),
    Heavy(
        "many short texts",
        "POST",
        _CONFIG_MAPS,
        lambda: b"{" + b",".join(b'"%d":""' % number for number in range(200_000)) + b"}",
        codes=(413,),
    ),
    Heavy(
        "protobuf of 700,000 fields",
        "POST",
        _CONFIG_MAPS,
        _protobuf,
        "application/vnd.kubernetes.protobuf",
        codes=(413,),
    ),
    Heavy(
        "owners that own 45,000 fields",
        "PATCH",
        f"{_CONFIG_MAPS}/owned?dryRun=All",
        lambda: _json({"data": {"a": "b"}}),
        _MERGE,
        _created(
            _CONFIG_MAPS,
            _map(
                "owned",
                0,
                managedFields=[
                    {
                        "manager": "me",
                        "operation": "Apply",
                        "fieldsType": "FieldsV1",
                        "fieldsV1": {f"f:{number}": {} for number in range(45_000)},
                    }
                ],
            ),
        ),
    ),
    Heavy(
        "a selector of 7,000 terms on 500 objects",
        "GET",
        f"{_CONFIG_MAPS}?labelSelector={_TERMS}",
        lambda: b"",
        setup=_many(500),
    ),
)
