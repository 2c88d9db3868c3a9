"""Clients of the service: REST and gRPC, blocking and asyncio, and a service as a policy.

    from proreus.serving.client import RestClient

Each is imported when it is first asked for: whoever calls REST need not wait for gRPC.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proreus.serving.client.grpc import AsyncGrpcClient, GrpcClient
    from proreus.serving.client.policy import RemotePolicy
    from proreus.serving.client.rest import AsyncRestClient, ClientOptions, RestClient, ServiceError

_MODULES = {
    "AsyncGrpcClient": "grpc",
    "AsyncRestClient": "rest",
    "ClientOptions": "rest",
    "GrpcClient": "grpc",
    "RemotePolicy": "policy",
    "RestClient": "rest",
    "ServiceError": "rest",
}

__all__ = [
    "AsyncGrpcClient",
    "AsyncRestClient",
    "ClientOptions",
    "GrpcClient",
    "RemotePolicy",
    "RestClient",
    "ServiceError",
]


if not TYPE_CHECKING:  # where types are checked, a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)
