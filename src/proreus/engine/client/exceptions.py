"""One way from any error to what a client is told of it."""

from __future__ import annotations

import logging
from typing import Any

from proreus.engine.api.server.status import failure
from proreus.engine.objects.errors import BadRequest, StatusError, Unserviceable
from proreus.model.errors import InputError, ProreusError, UsageError

_log = logging.getLogger(__name__)


class ExceptionHandler:
    """Errors as Kubernetes' Status objects: refusals in their own words, faults without their details."""

    def status(self, error: BaseException) -> dict[str, Any]:
        """The Status; what nobody foresaw is logged, and told as an internal error."""
        match error:
            case StatusError():
                return failure(error)
            case InputError() | UsageError():
                return failure(BadRequest(str(error)))
            case ProreusError():
                return failure(Unserviceable(str(error)))
            case _:
                _log.error("%s", error, exc_info=error)
                return failure(_Fault("an internal error occurred; the log has its details"))


class _Fault(StatusError):
    """A fault of ours."""

    code, reason = 500, "InternalError"
