"""What a Kubernetes API refuses, in its own words, and what it could not be asked."""

from __future__ import annotations

from typing import Any

from proreus.model.errors import WorkError

_LONGEST = 600
"""Characters of a message that is not a Status: a proxy's page must not fill a log."""


class ApiError(WorkError):
    """An answer that is no success: HTTP code, Kubernetes' reason and message."""

    def __init__(
        self, message: str, code: int = 0, reason: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.code, self.reason, self.retry_after = message, code, reason, retry_after
        self.causes: tuple[str, ...] = ()
        """Reasons of the Status' details."""


class BadRequest(ApiError):
    """It cannot be read or meant."""


class Unauthorized(ApiError):
    """Who asks is not known."""


class Forbidden(ApiError):
    """Who asks may not do that."""


class NotFound(ApiError):
    """There is no such object, or no such resource."""


class Conflict(ApiError):
    """It has been changed since, or may not be changed so now; a pod that is bound already, too."""


class AlreadyExists(Conflict):
    """There is one of that name."""


class Expired(ApiError):
    """The resourceVersion, or the token of a list's next page, is too old: list again."""


class Invalid(ApiError):
    """Fields that are wrong."""


class TooManyRequests(ApiError):
    """Not now: too much at once, or a disruption budget."""


class ServerFault(ApiError):
    """5xx: whether it was done is not known, unless the server says to come again."""


class Unreachable(ApiError):
    """No answer: refused, broken or too slow."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message, 0, "Unreachable")
        self.sent = sent
        """The request may have arrived, so that what it asked for may have been done."""


class Silent(Unreachable):
    """A watch on which nothing came for long: an idle cluster does that, and so does a lost connection."""


class Untrusted(Unreachable):
    """The server's certificate is not one that we believe; trying again does not help."""


class TooLarge(ApiError):
    """An answer that is longer than anybody reads here."""


_BY_CODE: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
    429: TooManyRequests,
}


def refusal(code: int, status: Any, text: str = "", retry_after: float | None = None) -> ApiError:
    """The error for an answer: `status` is its Status object, where it has one."""
    body: dict[str, Any] = status if isinstance(status, dict) else {}
    details = body.get("details")
    details = details if isinstance(details, dict) else {}
    message = str(body.get("message") or " ".join(text.split())[:_LONGEST] or f"HTTP {code}")
    reason = str(body.get("reason") or "")
    kind = _BY_CODE.get(code, ServerFault if code >= 500 else ApiError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    if reason in ("Expired", "Gone"):
        kind = Expired
    if retry_after is None and isinstance(details.get("retryAfterSeconds"), int):
        retry_after = float(details["retryAfterSeconds"]) or None
    error = kind(message, code, reason, retry_after)
    causes = details.get("causes")
    error.causes = tuple(str(cause.get("reason") or "") for cause in causes or () if isinstance(cause, dict))
    return error


def is_too_large_version(error: ApiError) -> bool:
    """Whether a resourceVersion is from the future: a store that was restored knows less than we do."""
    return "ResourceVersionTooLarge" in error.causes or "Too large resource version" in error.message


def explained(failure: BaseException, server: str) -> str:
    """In one line: the first of a group, who answered, and with which code."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    if isinstance(failure, ApiError) and failure.code:
        return f"{server or 'the server'} answers {failure.code}: {failure}"
    return str(failure) or type(failure).__name__
