"""Clients of the service: REST and gRPC, blocking and asyncio; a kept cluster; a service as a policy.

    from proreus.serving.client import RestClient

Each is imported when it is first asked for: whoever calls REST need not wait for gRPC.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proreus.serving.client.grpc import AsyncGrpcClient, GrpcClient
    from proreus.serving.client.kept import KeptCluster
    from proreus.serving.client.policy import RemotePolicy
    from proreus.serving.client.rest import AsyncRestClient, ClientOptions, RestClient, ServiceError
    from proreus.serving.named.changes import (
        AddNode,
        AddPod,
        BindPod,
        BudgetWire,
        RemoveBudget,
        RemoveNode,
        RemovePod,
        SetBudget,
        UpdateNode,
    )
    from proreus.serving.named.request import DecideAnswer, DecideRequest
    from proreus.serving.named.wire import NodeWire, PodWire

_MODULES = {
    "AddNode": "named.changes",
    "AddPod": "named.changes",
    "AsyncGrpcClient": "client.grpc",
    "AsyncRestClient": "client.rest",
    "BindPod": "named.changes",
    "BudgetWire": "named.changes",
    "ClientOptions": "client.rest",
    "DecideAnswer": "named.request",
    "DecideRequest": "named.request",
    "GrpcClient": "client.grpc",
    "KeptCluster": "client.kept",
    "NodeWire": "named.wire",
    "PodWire": "named.wire",
    "RemotePolicy": "client.policy",
    "RemoveBudget": "named.changes",
    "RemoveNode": "named.changes",
    "RemovePod": "named.changes",
    "RestClient": "client.rest",
    "ServiceError": "client.rest",
    "SetBudget": "named.changes",
    "UpdateNode": "named.changes",
}

__all__ = [
    "AddNode",
    "AddPod",
    "AsyncGrpcClient",
    "AsyncRestClient",
    "BindPod",
    "BudgetWire",
    "ClientOptions",
    "DecideAnswer",
    "DecideRequest",
    "GrpcClient",
    "KeptCluster",
    "NodeWire",
    "PodWire",
    "RemotePolicy",
    "RemoveBudget",
    "RemoveNode",
    "RemovePod",
    "RestClient",
    "ServiceError",
    "SetBudget",
    "UpdateNode",
]


if not TYPE_CHECKING:  # where types are checked, a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        module = _MODULES.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"proreus.serving.{module}"), name)
