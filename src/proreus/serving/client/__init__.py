"""Clients of the service: REST and gRPC, blocking and asyncio; a kept cluster; a service as a policy.

    from proreus.serving.client import RestClient

Each is imported when it is first asked for: whoever calls REST need not wait for gRPC.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from proreus.serving.client.cluster_session import KeptCluster
    from proreus.serving.client.grpc import AsyncGrpcClient, GrpcClient
    from proreus.serving.client.remote_policy import RemotePolicy
    from proreus.serving.client.rest import AsyncRestClient, ClientOptions, RestClient, ServiceError
    from proreus.serving.cluster_api.changes import (
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
    from proreus.serving.cluster_api.request import DecideAnswer, DecideRequest
    from proreus.serving.cluster_api.schema import NodeWire, PodWire

_MODULES = {
    "AddNode": "cluster_api.changes",
    "AddPod": "cluster_api.changes",
    "AsyncGrpcClient": "client.grpc",
    "AsyncRestClient": "client.rest",
    "BindPod": "cluster_api.changes",
    "BudgetWire": "cluster_api.changes",
    "ClientOptions": "client.rest",
    "DecideAnswer": "cluster_api.request",
    "DecideRequest": "cluster_api.request",
    "GrpcClient": "client.grpc",
    "KeptCluster": "client.cluster_session",
    "NodeWire": "cluster_api.schema",
    "PodWire": "cluster_api.schema",
    "RemotePolicy": "client.remote_policy",
    "RemoveBudget": "cluster_api.changes",
    "RemoveNode": "cluster_api.changes",
    "RemovePod": "cluster_api.changes",
    "RestClient": "client.rest",
    "ServiceError": "client.rest",
    "SetBudget": "cluster_api.changes",
    "UpdateNode": "cluster_api.changes",
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
