"""Containers and images over the API: made, started, stopped, restarted, deleted; pulled, cached, deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proreus.engine.client.k8s_client import K8sClient

_PATH = "/v1/containers"


@dataclass(frozen=True)
class Container:
    """A container as the API tells of it."""

    namespace: str
    pod: str
    name: str
    image: str
    node: str
    """"": it waits to be scheduled."""
    state: str
    """waiting, running, terminated or stopped."""
    reason: str
    ready: bool
    restarts: int
    started: str
    exit_code: int | None

    @property
    def id(self) -> str:
        """Namespace, pod and name."""
        return f"{self.namespace}/{self.pod}/{self.name}"


class ContainerRuntime:
    """What can be done to containers that are there: `id` is namespace/pod/name."""

    def __init__(self, client: K8sClient) -> None:
        self._client = client

    def start(self, id: str) -> Container:
        """One that was stopped runs again."""
        return self._do(id, "start")

    def stop(self, id: str) -> Container:
        """It ends, and stays away until it is started."""
        return self._do(id, "stop")

    def restart(self, id: str) -> Container:
        """It ends, and another attempt begins."""
        return self._do(id, "restart")

    def logs(self, id: str, tail: int | None = None) -> str:
        """What it has written; tail: the last so many lines."""
        params = {} if tail is None else {"tailLines": str(tail)}
        return str(self._client.request("GET", f"{_PATH}/{id}/logs", params=params))

    def _do(self, id: str, change: str) -> Container:
        return _container(self._client.request("POST", f"{_PATH}/{id}/{change}"))


class ContainerManager(ContainerRuntime):
    """The same, and containers made, found and deleted."""

    def create(  # noqa: PLR0913 - what a container is
        self,
        name: str,
        image: str,
        command: Sequence[str] = (),
        *,
        namespace: str = "default",
        limits: Mapping[str, str | int] | None = None,
        env: Mapping[str, str] | None = None,
        restart: str = "Always",
    ) -> Container:
        """A container in a pod of its own, of the same name; it is scheduled as any pod is."""
        body: dict[str, Any] = {"name": name, "image": image, "namespace": namespace, "restart": restart}
        stated = {"command": list(command), "limits": dict(limits or {}), "env": dict(env or {})}
        body |= {field: value for field, value in stated.items() if value}
        return _container(self._client.request("POST", _PATH, body))

    def get(self, id: str) -> Container:
        """As it is now."""
        return _container(self._client.request("GET", f"{_PATH}/{id}"))

    def list(self, namespace: str = "", node: str = "") -> list[Container]:
        """Of one namespace or node, or all."""
        params = {name: value for name, value in (("namespace", namespace), ("node", node)) if value}
        return [_container(told) for told in self._client.request("GET", _PATH, params=params)["containers"]]

    def delete(self, id: str) -> None:
        """It goes, with its pod; refused where others share that."""
        self._client.request("DELETE", f"{_PATH}/{id}")


class ImageHandler:
    """Images that nodes hold."""

    def __init__(self, client: K8sClient) -> None:
        self._client = client

    def list(self) -> list[dict[str, Any]]:
        """Names, size_bytes and nodes of each."""
        images: list[dict[str, Any]] = self._client.request("GET", "/v1/images")["images"]
        return images

    def pull(self, name: str, node: str = "") -> dict[str, Any]:
        """Fetch one from its registry onto a node; held from then on."""
        params = {"node": node} if node else {}
        answer = self._client.request("POST", "/v1/images", {"name": name}, params)
        pulled: dict[str, Any] = answer["images"][0]
        return pulled

    def delete(self, name: str, node: str = "") -> None:
        """Forget one; refused while containers of it stand."""
        self._client.request(
            "DELETE", "/v1/images", params={"name": name, **({"node": node} if node else {})}
        )


def _container(told: Mapping[str, Any]) -> Container:
    return Container(**{name: value for name, value in told.items() if name != "id"})
