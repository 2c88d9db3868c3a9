"""Calls of a runtime that speaks CRI, over its socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc

from proreus.engine.runtimes.containerd import cri_pb2 as cri

_SECONDS = 120.0
_MOST_BYTES = 64 * 1024 * 1024
_IMAGE_CALLS = frozenset({"ListImages", "ImageStatus", "PullImage", "RemoveImage"})


class CriCalls:
    """One channel to one runtime; belongs to the loop that it was made in."""

    def __init__(self, socket: Path) -> None:
        options = [
            ("grpc.max_receive_message_length", _MOST_BYTES),
            ("grpc.max_reconnect_backoff_ms", 1000),
            ("grpc.default_authority", "localhost"),
        ]
        self._channel = grpc.aio.insecure_channel(f"unix://{socket.resolve()}", options=options)

    async def call(self, name: str, request: Any, seconds: float = _SECONDS) -> Any:
        """The answer to `NameRequest`; raises `grpc.aio.AioRpcError`."""
        service = "ImageService" if name in _IMAGE_CALLS else "RuntimeService"
        ask = self._channel.unary_unary(
            f"/runtime.v1.{service}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(cri, f"{name}Response").FromString,
        )
        return await ask(request, timeout=seconds)

    async def close(self) -> None:
        """Hang up."""
        await self._channel.close()


def details(error: grpc.aio.AioRpcError) -> str:
    """What a call that failed has to say."""
    return (error.details() or str(error.code()))[:2000]
