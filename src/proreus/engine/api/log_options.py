"""Which lines of a log are asked for: the query, every field of it checked (PodLogOptions)."""

from __future__ import annotations

import time

import msgspec

from proreus.engine.api.server.request import ApiRequest
from proreus.engine.objects.errors import BadRequest, Cause, Invalid
from proreus.engine.objects.timestamps import parse_timestamp
from proreus.engine.runtimes.protocol import LogWanted

_EVERY_STREAM = "All"


def read_log_options(pod: str, asked: ApiRequest) -> LogWanted:
    """What the query asks for; `BadRequest` and `Invalid` name the field."""
    seconds, limit = asked.number("sinceSeconds"), asked.number("limitBytes")
    moment = _moment(asked.query.get("sinceTime", ""))
    asked.flag("insecureSkipTLSVerifyBackend")  # nodes are asked over connections of the engine's own
    causes = [
        Cause(name, f"Invalid value: {number}: must be greater than 0")
        for name, number in (("sinceSeconds", seconds), ("limitBytes", limit))
        if number == 0
    ]
    if seconds is not None and moment is not None:
        causes.append(
            Cause(
                "",
                "Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
                "FieldValueForbidden",
            )
        )
    stream = asked.query.get("stream", "") or _EVERY_STREAM
    if stream != _EVERY_STREAM:
        message = f'Unsupported value: "{stream[:80]}": supported values: "{_EVERY_STREAM}"'
        causes.append(Cause("stream", message, "FieldValueNotSupported"))
    if causes:
        listed = ", ".join(
            f"{cause.field}: {cause.message}" if cause.field else cause.message for cause in causes
        )
        raise Invalid(
            f'PodLogOptions "{pod}" is invalid: {listed}',
            kind="PodLogOptions",
            name=pod,
            causes=tuple(causes),
        )
    return LogWanted(
        asked.query.get("container", ""),
        follow=asked.flag("follow"),
        previous=asked.flag("previous"),
        tail=asked.number("tailLines"),
        since=moment if seconds is None else time.time() - seconds,
        timestamps=asked.flag("timestamps"),
        limit_bytes=limit,
    )


def _moment(text: str) -> float | None:
    if not text:
        return None
    try:
        return parse_timestamp(text)
    except (msgspec.ValidationError, ValueError, OverflowError):
        raise BadRequest(
            f"sinceTime: Invalid value: {text[:80]!r}: it is a moment such as 2026-11-16T20:00:00Z"
        ) from None
