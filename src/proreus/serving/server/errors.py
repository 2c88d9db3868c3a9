"""Refusals over HTTP: their status, their headers, their one line."""

from __future__ import annotations

from typing import assert_never

from proreus.serving.messages import ENCODER, ErrorAnswer, Refusal, Refused
from proreus.serving.server.router import JSON_HEADER, HandlerReply, Header, WrongMethod


def status_of(refusal: Refusal) -> int:
    """The HTTP status of a refusal."""
    match refusal:
        case Refusal.INVALID:
            return 400
        case Refusal.UNAUTHENTICATED:
            return 401
        case Refusal.FORBIDDEN:
            return 403
        case Refusal.NOT_FOUND:
            return 404
        case Refusal.WRONG_METHOD:
            return 405
        case Refusal.TOO_SLOW:
            return 408
        case Refusal.CONFLICT:
            return 409
        case Refusal.TOO_LARGE:
            return 413
        case Refusal.WRONG_TYPE:
            return 415
        case Refusal.EXHAUSTED:
            return 429
        case Refusal.UNAVAILABLE:
            return 503
        case _:
            assert_never(refusal)


def refusal_reply(refused: Refused, request_id: bytes) -> HandlerReply:
    """What a refused request hears."""
    answer = ErrorAnswer(str(refused), refused.refusal.value, refused.field, request_id.decode())
    headers: list[Header] = [JSON_HEADER]
    match refused.refusal:
        case Refusal.WRONG_METHOD if isinstance(refused, WrongMethod):
            headers.append((b"allow", ", ".join(refused.allowed).encode()))
        case Refusal.UNAUTHENTICATED:
            headers.append((b"www-authenticate", b"Bearer"))
        case Refusal.EXHAUSTED | Refusal.UNAVAILABLE:
            headers.append((b"retry-after", b"1"))
        case Refusal.TOO_LARGE | Refusal.TOO_SLOW:
            headers.append((b"connection", b"close"))
        case _:
            pass
    return HandlerReply(ENCODER.encode(answer), status_of(refused.refusal), tuple(headers))


def failure_reply(request_id: bytes) -> HandlerReply:
    """What a request hears that failed by our fault: no details."""
    says = ErrorAnswer("the service failed; its log says why", "failed", "", request_id.decode())
    return HandlerReply(ENCODER.encode(says), 500)
