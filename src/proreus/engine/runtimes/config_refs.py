"""Where pods' ConfigMaps and Secrets are looked up."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol

from proreus.engine.objects.errors import NotFound, StatusError
from proreus.engine.objects.kinds import SECRET, Kind
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.backend import LaunchRefused

UNRESOLVED = "CreateContainerConfigError"


class References(Protocol):
    """Objects by kind, namespace and name; None where there is none."""

    async def find(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        """The object; raises `LaunchRefused` where nobody can be asked now."""
        ...


class NoReferences:
    """For runtimes without an API: there is nothing."""

    async def find(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        """None."""
        return None


class RegistryReferences:
    """Asks the registry each time: what a container is started with is what stands then."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def find(self, kind: Kind, namespace: str, name: str) -> Mapping[str, Any] | None:
        try:
            return await self._registry.get(kind, namespace, name)
        except NotFound:
            return None
        except StatusError as error:
            raise LaunchRefused(UNRESOLVED, str(error)) from error


async def contents(
    references: References, kind: Kind, namespace: str, source: Mapping[str, Any]
) -> dict[str, bytes] | None:
    """The keys of a ConfigMap or Secret; None where it is absent and may be."""
    name = str(source.get("name") or source.get("secretName") or "")
    obj = await references.find(kind, namespace, name)
    if obj is None:
        if source.get("optional"):
            return None
        raise LaunchRefused(UNRESOLVED, f'{kind.plural[:-1]} "{name}" not found')
    encoded = obj.get("data") or {}
    if kind is SECRET:
        return {key: base64.b64decode(value) for key, value in encoded.items()}
    binary = {key: base64.b64decode(value) for key, value in (obj.get("binaryData") or {}).items()}
    return {key: value.encode() for key, value in encoded.items()} | binary
