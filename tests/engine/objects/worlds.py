"""A registry over a store in memory, and objects to put into it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from proreus.engine.objects.registry import Registry
from proreus.engine.store.memory import MemoryStore

T = TypeVar("T")
NOW = 1_790_000_000.0


def with_registry(scenario: Callable[[Registry], Awaitable[T]]) -> T:
    """What the scenario returns, played on a fresh registry whose clock stands still."""

    async def play() -> T:
        registry = Registry(MemoryStore(), clock=lambda: NOW)
        await registry.prepare()
        return await scenario(registry)

    return asyncio.run(play())


def pod(name: str = "web", *, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A pod of one container."""
    container = {
        "name": "main",
        "image": "nginx:1.25",
        "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"app": "web"}},
        "spec": {"containers": [container], **spec},
    }


def deployment(name: str = "web", *, replicas: int = 2) -> dict[str, Any]:
    """A Deployment of such pods."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod()["spec"]},
        },
    }
