"""Which Secrets an agent may read."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import httpx
import pytest

from proreus.engine.api.server.application import create_app
from proreus.engine.api.server.authentication import Identity, Role
from proreus.engine.api.server.node_authorizer import secrets_of
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.objects.kinds import POD, SECRET
from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore

_USES: dict[str, dict[str, Any]] = {
    "volume": {"volumes": [{"name": "v", "secret": {"secretName": "s"}}]},
    "projected": {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "s"}}]}}]},
    "pull": {"imagePullSecrets": [{"name": "s"}]},
}
_CONTAINERS: dict[str, dict[str, Any]] = {
    "variable": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
    "environment": {"envFrom": [{"secretRef": {"name": "s"}}]},
}


def _spec(more: dict[str, Any] | None = None, container: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", **(container or {})}], **(more or {})}


@pytest.mark.parametrize("how", _USES)
def test_pods_use_secrets(how: str) -> None:
    assert secrets_of({"spec": _spec(_USES[how])}) == {"s"}


@pytest.mark.parametrize("how", _CONTAINERS)
@pytest.mark.parametrize("init", [False, True])
def test_containers_use_secrets(how: str, init: bool) -> None:
    of_init = {"initContainers": [{"name": "i", "image": "i", **_CONTAINERS[how]}]}
    spec = _spec(of_init) if init else _spec(container=_CONTAINERS[how])
    assert secrets_of({"spec": spec}) == {"s"}


def test_other_pods_use_none() -> None:
    empty = {"volumes": [{"name": "v", "emptyDir": {}}]}
    assert secrets_of({"spec": _spec(empty, {"env": [{"name": "A", "value": "s"}]})}) == set()


def test_an_agent_reads_what_pods_on_its_node_use_and_no_more() -> None:
    who = {
        "a-node-s-own-token": Identity("system:node:one", Role.AGENT),
        "another-node-s-token": Identity("system:node:two", Role.AGENT),
        "some-agent-s-token": Identity("agent-1", Role.AGENT),
        "a-viewer-s-token": Identity("viewer-1", Role.VIEWER),
    }
    tokens = {hashlib.sha256(token.encode()).digest(): identity for token, identity in who.items()}

    async def play() -> None:
        registry = Registry(MemoryStore())
        await registry.prepare()
        for name in ("used", "unused", "waiting"):
            await registry.create(SECRET, {"metadata": {"name": name, "namespace": "default"}})
        for name, secret in (("p", "used"), ("w", "waiting")):
            volumes = {"volumes": [{"name": "v", "secret": {"secretName": secret}}]}
            pod = {"metadata": {"name": name, "namespace": "default"}, "spec": _spec(volumes)}
            await registry.create(POD, pod)
        await registry.bind("default", "p", "one")
        app = create_app(registry, ApiOptions(tokens=tokens))
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:

            async def asked(token: str, path: str, method: str = "GET") -> int:
                headers = {"authorization": f"Bearer {token}"}
                url = f"/api/v1/namespaces/default/secrets{path}"
                return (await client.request(method, url, headers=headers)).status_code

            found = {token: await asked(token, "/used") for token in who}
            assert list(found.values()) == [200, 403, 200, 403]
            mine = next(iter(who))
            assert [await asked(mine, path) for path in ("/unused", "/waiting", "", "?watch=1")] == [403] * 4
            assert await asked(mine, "/used", "DELETE") == 403
            await registry.delete(POD, "default", "p", grace=0)
            assert await asked(mine, "/used") == 403, "nobody uses it any more"

    asyncio.run(play())
