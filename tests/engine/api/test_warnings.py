"""Who writes what has no effect here is told so; nobody else is told anything."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.engine.api.live import live

_CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "nobody-s"}}
_CORE, _APPS = "/api/v1/namespaces/default", "/apis/apps/v1/namespaces/default"


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with live() as door, door.client() as connected:
        yield connected


def _pod(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def _told(answer: httpx.Response) -> list[str]:
    assert answer.is_success, answer.text
    return [one.removeprefix('299 - "').removesuffix('"') for one in answer.headers.get_list("warning")]


def test_a_service_routes_nothing(client: httpx.Client) -> None:
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    (message,) = _told(client.post(f"{_CORE}/services", json=service))
    assert message.startswith("a Service is kept and has no effect here: nothing is routed")
    merge = {"content-type": "application/merge-patch+json"}
    label = {"metadata": {"labels": {"a": "b"}}}
    assert _told(client.patch(f"{_CORE}/services/web", json=label, headers=merge)) == []
    port = {"spec": {"ports": [{"port": 81}]}}
    assert _told(client.patch(f"{_CORE}/services/web", json=port, headers=merge)) == [message]


def test_of_pods_and_templates_by_the_path_of_the_field(client: httpx.Client) -> None:
    spec = {"serviceAccountName": "robot", "runtimeClassName": "kata", "volumes": [_CLAIM]}
    messages = _told(client.post(f"{_CORE}/pods", json=_pod("odd", **spec)))
    fields = ["spec.serviceAccountName", "spec.runtimeClassName", "spec.volumes[0].persistentVolumeClaim"]
    assert [one.partition(" ")[0].rstrip(":") for one in messages] == fields
    assert all("has no effect" in one for one in messages)
    template = {"metadata": {"labels": {"app": "a"}}, "spec": _pod("", **spec)["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    apply = {"content-type": "application/apply-patch+yaml"}
    path = f"{_APPS}/deployments/a?fieldManager=m"
    messages = _told(client.patch(path, content=json.dumps(deployment), headers=apply))
    assert [one.partition(" ")[0].rstrip(":") for one in messages] == [
        field.replace("spec.", "spec.template.spec.", 1) for field in fields
    ]


def test_what_has_its_effect_is_passed_over(client: httpx.Client, tmp_path: Path) -> None:
    sound = {"serviceAccountName": "default", "volumes": [{"name": "e", "emptyDir": {}}]}
    assert _told(client.post(f"{_CORE}/pods", json=_pod("sound", **sound))) == []
    assert _told(client.post(f"{_CORE}/configmaps", json={"metadata": {"name": "c"}})) == []
    with live(agents=True, processes=tmp_path) as door, door.client() as real:
        # A real node has no such volume: the pod does not start, and an event says why.
        assert _told(real.post(f"{_CORE}/pods", json=_pod("claims", volumes=[_CLAIM]))) == []
