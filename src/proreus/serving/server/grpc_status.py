"""gRPC's status codes: which refusal has which, and how one is written at the end of an answer."""

from __future__ import annotations

from typing import assert_never
from urllib.parse import quote

import grpc

from proreus.serving.messages import Refusal
from proreus.serving.server.http2.hpack import literal

_AS_THEY_ARE = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}~"


def code_of(refusal: Refusal) -> grpc.StatusCode:
    """The gRPC status of a refusal."""
    match refusal:
        case Refusal.INVALID | Refusal.WRONG_TYPE:
            return grpc.StatusCode.INVALID_ARGUMENT
        case Refusal.UNAUTHENTICATED:
            return grpc.StatusCode.UNAUTHENTICATED
        case Refusal.FORBIDDEN:
            return grpc.StatusCode.PERMISSION_DENIED
        case Refusal.NOT_FOUND:
            return grpc.StatusCode.NOT_FOUND
        case Refusal.WRONG_METHOD:
            return grpc.StatusCode.UNIMPLEMENTED
        case Refusal.TOO_SLOW:
            return grpc.StatusCode.DEADLINE_EXCEEDED
        case Refusal.CONFLICT:
            return grpc.StatusCode.FAILED_PRECONDITION
        case Refusal.TOO_LARGE | Refusal.EXHAUSTED:
            return grpc.StatusCode.RESOURCE_EXHAUSTED
        case Refusal.UNAVAILABLE:
            return grpc.StatusCode.UNAVAILABLE
        case _:
            assert_never(refusal)


def status_block(code: grpc.StatusCode, says: str = "") -> bytes:
    """The headers that end a call."""
    number: int = code.value[0]
    block = literal(b"grpc-status", str(number).encode())
    if says:
        block += literal(b"grpc-message", quote(says, safe=_AS_THEY_ARE).encode())
    return block
