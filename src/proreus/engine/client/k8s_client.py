"""A blocking client of the engine's API, or of any Kubernetes API; needs httpx (the extra `engine`)."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import yaml

from proreus.engine.objects.kinds import BY_KIND, Kind
from proreus.model.errors import InputError, WorkError

_SECONDS = 60.0


class ApiError(WorkError):
    """The API refused; `code` is HTTP's, the message its own."""

    def __init__(self, code: int, message: str) -> None:
        self.code = code
        super().__init__(message)


class K8sClient:
    """Objects by kind, and any other path; a context manager.

    certificate: PEM of the authority that the server is known by; "": that of the system.
    """

    def __init__(self, server: str, token: str = "", certificate: str = "") -> None:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        verify: ssl.SSLContext | bool = True
        if certificate:
            verify = ssl.create_default_context(cadata=certificate)
        self._http = httpx.Client(
            base_url=server, headers=headers, verify=verify, timeout=_SECONDS, trust_env=False
        )

    @classmethod
    def from_kubeconfig(cls, path: str | Path) -> K8sClient:
        """Of the file that `proreus up` writes into its folder."""
        import base64

        config = yaml.safe_load(Path(path).read_text())
        try:
            cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
            data = cluster.get("certificate-authority-data", "")
            file = cluster.get("certificate-authority", "")
            certificate = base64.b64decode(data).decode() if data else Path(file).read_text() if file else ""
            return cls(cluster["server"], user.get("token", ""), certificate)
        except (KeyError, IndexError, TypeError) as error:
            raise InputError(f"no cluster and user stand in it: {error}", file=Path(path)) from error

    def __enter__(self) -> K8sClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def request(
        self, method: str, path: str, body: object = None, params: Mapping[str, str] | None = None
    ) -> Any:
        """The answer, JSON or text; raises `ApiError`."""
        try:
            answer = self._http.request(method, path, json=body, params=dict(params or {}))
        except httpx.TransportError as error:
            raise WorkError(f"{self._http.base_url} does not answer: {error}") from error
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        if answer.is_success:
            return answer.json() if is_json else answer.text
        told = answer.json().get("message", "") if is_json else answer.text
        raise ApiError(answer.status_code, str(told) or f"HTTP {answer.status_code}")

    def create(self, obj: Mapping[str, Any]) -> dict[str, Any]:
        """An object that states its apiVersion, kind and metadata."""
        kind = _kind_of(obj)
        namespace = (obj.get("metadata") or {}).get("namespace", "default")
        created: dict[str, Any] = self.request("POST", _path(kind, namespace), obj)
        return created

    def get(self, kind: Kind, name: str, namespace: str = "default") -> dict[str, Any]:
        """One object."""
        found: dict[str, Any] = self.request("GET", f"{_path(kind, namespace)}/{name}")
        return found

    def list(self, kind: Kind, namespace: str = "") -> list[dict[str, Any]]:
        """All of a kind, of one namespace or of all."""
        listed: list[dict[str, Any]] = self.request("GET", _path(kind, namespace))["items"]
        return listed

    def patch(self, kind: Kind, name: str, change: Mapping[str, Any], namespace: str = "default") -> None:
        """A merge patch."""
        path, media = f"{_path(kind, namespace)}/{name}", {"content-type": "application/merge-patch+json"}
        answer = self._http.patch(path, json=dict(change), headers=media)
        if not answer.is_success:
            raise ApiError(answer.status_code, str(answer.json().get("message", "")))

    def delete(self, kind: Kind, name: str, namespace: str = "default") -> None:
        """One object goes, or begins to."""
        self.request("DELETE", f"{_path(kind, namespace)}/{name}")


def _kind_of(obj: Mapping[str, Any]) -> Kind:
    stated = (str(obj.get("apiVersion", "")), str(obj.get("kind", "")))
    if stated not in BY_KIND:
        raise InputError(f"the engine keeps no objects of apiVersion {stated[0]!r} and kind {stated[1]!r}")
    return BY_KIND[stated]


def _path(kind: Kind, namespace: str) -> str:
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    inside = f"/namespaces/{namespace}" if kind.namespaced and namespace else ""
    return f"{root}{inside}/{kind.plural}"
