"""The door of a process that joins a cluster: for logs, commands and images of its node, asked by the API."""

from __future__ import annotations

import hashlib
import secrets
from contextlib import AsyncExitStack

from proreus.engine.api.server.application import ApiDependencies, create_app
from proreus.engine.api.server.authentication import Identity, Role
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.api.server.server import ApiServer
from proreus.engine.node_host import MachineNode
from proreus.engine.objects.node_endpoints import NodeEndpoint, note_door
from proreus.engine.objects.registry import Registry
from proreus.httpserver.certificate_authority import Authority

_ASKER = Identity("proreus:api", Role.ADMIN)


async def open_node_door(
    registry: Registry, node: MachineNode, port: int, around: ApiDependencies, stack: AsyncExitStack
) -> int:
    """Open until the stack is closed, and noted where the API finds it; on which port."""
    token = secrets.token_urlsafe(32)
    host = node.options.address
    authority = Authority(node.options.root / "tls", (host,))
    tokens = {hashlib.sha256(token.encode()).digest(): _ASKER}
    options = ApiOptions(host, port, tokens, allowed_hosts=(host,), authority=authority)
    server = ApiServer(create_app(registry, options, around), options)
    await server.start()
    stack.push_async_callback(server.stop)
    noted = NodeEndpoint(host, server.port, token, authority.certificate.read_text())
    await note_door(registry, node.name, noted)
    return server.port
