"""What the registry refuses, in Kubernetes' words; the door writes it as a Status object."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.model.errors import ProreusError


@dataclass(frozen=True)
class Cause:
    """One field that is wrong."""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class StatusError(ProreusError):
    """A Status of failure: code, reason, message, and of what."""

    code = 400
    reason = "BadRequest"

    def __init__(
        self, message: str, *, kind: str = "", name: str = "", causes: tuple[Cause, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message, self.kind, self.name, self.causes = message, kind, name, causes


class BadRequest(StatusError):
    """It cannot be read or meant."""


class Forbidden(StatusError):
    """Not allowed, by role or by rule."""

    code, reason = 403, "Forbidden"


class NotFound(StatusError):
    """There is no such object."""

    code, reason = 404, "NotFound"


class AlreadyExists(StatusError):
    """There is one of that name."""

    code, reason = 409, "AlreadyExists"


class Conflict(StatusError):
    """It has been changed since, or may not be changed so now."""

    code, reason = 409, "Conflict"


class Fenced(Conflict):
    """Whoever writes has been replaced, and may write no more."""


class Gone(StatusError):
    """The resourceVersion is too old: list again."""

    code, reason = 410, "Expired"


class TooLarge(StatusError):
    """More than is read, or done, for one request."""

    code, reason = 413, "RequestEntityTooLarge"


class Invalid(StatusError):
    """Fields that are wrong; `causes` names them."""

    code, reason = 422, "Invalid"


class TooManyRequests(StatusError):
    """Not now: a disruption budget, or too much at once."""

    code, reason = 429, "TooManyRequests"


class TooLargeVersion(StatusError):
    """A resourceVersion that is still to come."""

    code, reason = 504, "Timeout"

    def __init__(self, asked: int, current: int) -> None:
        cause = Cause("", "Too large resource version", "ResourceVersionTooLarge")
        super().__init__(f"Timeout: Too large resource version: {asked}, current: {current}", causes=(cause,))


class Unserviceable(StatusError):
    """The store is away or full, or the server ends."""

    code, reason = 503, "ServiceUnavailable"
