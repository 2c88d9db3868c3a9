"""Where the process of a node answers for what is inside its pods, noted where the API of another sees it.

The note is a Secret, kube-system/proreus-node-NAME: whoever can read it may run commands on that node.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import SECRET
from proreus.engine.objects.registry import Registry

NAMESPACE = "kube-system"
_PREFIX = "proreus-node-"


@dataclass(frozen=True)
class NodeEndpoint:
    """An address, the token that it wants, and the authority by whose certificate it is known."""

    host: str
    port: int
    token: str
    certificate: str
    """PEM."""

    @property
    def url(self) -> str:
        """Without a path."""
        return (
            f"https://[{self.host}]:{self.port}" if ":" in self.host else f"https://{self.host}:{self.port}"
        )


async def note_door(registry: Registry, node: str, door: NodeEndpoint) -> None:
    """In place of what an earlier process of the node has noted."""
    fields = {
        "host": door.host,
        "port": str(door.port),
        "token": door.token,
        "certificate": door.certificate,
    }
    data = {key: base64.b64encode(value.encode()).decode() for key, value in fields.items()}
    named = {"metadata": {"name": _PREFIX + node, "namespace": NAMESPACE}}
    await registry.create_or_edit(SECRET, named, lambda standing: {**standing, "data": data})


async def find_door(registry: Registry, node: str) -> NodeEndpoint | None:
    """None where the node has none, or nobody can read what stands there."""
    try:
        data = (await registry.get(SECRET, NAMESPACE, _PREFIX + node)).get("data") or {}
        fields = {key: base64.b64decode(value).decode() for key, value in data.items()}
        return NodeEndpoint(fields["host"], int(fields["port"]), fields["token"], fields["certificate"])
    except (NotFound, KeyError, ValueError):
        return None
