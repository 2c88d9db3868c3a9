"""Kubernetes' Status objects: what a request hears that is refused, or that leaves nothing to show."""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.errors import StatusError, TooLargeVersion, TooManyRequests, Unserviceable

RETRY_SECONDS = 1


class Unauthorized(StatusError):
    """Nobody knows who asks."""

    code, reason = 401, "Unauthorized"


class MethodNotAllowed(StatusError):
    """The path is there, the method is not."""

    code, reason = 405, "MethodNotAllowed"


class NotAcceptable(StatusError):
    """No form of the answer that the client accepts."""

    code, reason = 406, "NotAcceptable"


class RequestTimeout(StatusError):
    """The body did not come in time."""

    code, reason = 408, "Timeout"


class UnsupportedType(StatusError):
    """The body is of a type that is not read here."""

    code, reason = 415, "UnsupportedMediaType"


def failure(refused: StatusError) -> dict[str, Any]:
    """The Status of a refusal."""
    details: dict[str, Any] = {}
    if refused.name:
        details["name"] = refused.name
    if refused.kind:
        kind, _, group = refused.kind.partition(".")
        details["kind"] = kind
        if group:
            details["group"] = group
    if refused.causes:
        details["causes"] = [
            {"reason": cause.reason, "message": cause.message}
            | ({"field": cause.field} if cause.field else {})
            for cause in refused.causes
        ]
    if isinstance(refused, TooManyRequests | TooLargeVersion | Unserviceable):
        details["retryAfterSeconds"] = RETRY_SECONDS
    # Never without details, though these may be empty, as with the API server: clients look into them.
    described = {"message": refused.message, "reason": refused.reason, "details": details}
    return _status("Failure", refused.code, described)


def internal_error() -> dict[str, Any]:
    """What a request hears that failed by our fault: no details."""
    described = {"message": "the engine failed; its log says why", "reason": "InternalError"}
    return _status("Failure", 500, described)


def success(kind: str, name: str, *, uid: str = "", code: int = 200) -> dict[str, Any]:
    """The Status of a request that was done and has nothing to show; kind is a resource ("jobs.batch")."""
    plural, _, group = kind.partition(".")
    details = {"name": name, "kind": plural} | ({"group": group} if group else {})
    return _status("Success", code, {"details": details | ({"uid": uid} if uid else {})})


def done(code: int = 200) -> dict[str, Any]:
    """The same, of a request about which there is nothing more to say."""
    return _status("Success", code, {})


def _status(how: str, code: int, described: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": how, **described, "code": code}
