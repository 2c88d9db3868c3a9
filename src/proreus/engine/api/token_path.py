"""A token in the path, `/token/TOKEN/...`, for clients that send none in a header.

kubectl, and whatever else is made of Kubernetes' Go client, sends the token of its kubeconfig over TLS alone.
On loopback there is no need for TLS, and an address may have a path: the kubeconfig has the token there. It
is taken out before anything looks at the path; no log and no refusal shows it.
"""

from __future__ import annotations

import re
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:  # who only writes or reads an address needs no server
    from starlette.types import ASGIApp, Receive, Scope, Send

_PREFIX = b"/token/"
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")


def with_token(server: str, token: str) -> str:
    """The address for such clients; a token with signs that mean something in an address cannot be in one."""
    return f"{server}{_PREFIX.decode()}{token}" if _PLAIN.fullmatch(token) else server


def without_token(server: str, token: str) -> str:
    """The address for everybody else."""
    return server.removesuffix(f"{_PREFIX.decode()}{token}") if token else server


class TokenPath:
    """Around the whole of the API; a header counts more than the path."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One exchange."""
        if scope["type"] != "lifespan":
            raw: bytes = scope.get("raw_path") or scope["path"].encode()
            if raw.startswith(_PREFIX):
                scope = _taken_out(scope, raw)
        await self._app(scope, receive, send)


def _taken_out(scope: MutableMapping[str, Any], raw: bytes) -> Scope:
    token, _, rest = raw.removeprefix(_PREFIX).partition(b"/")
    headers = list(scope["headers"])
    if not any(name == b"authorization" for name, _ in headers):
        headers.append((b"authorization", b"Bearer " + token))
    path = b"/" + rest
    return {**scope, "raw_path": path, "path": unquote(path.decode("latin-1")), "headers": headers}
