"""Moments as people write them on a command line: a date, or so long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from proreus.model.errors import UsageError

_AGO = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def moment_of(flag: str, text: str, now: float) -> float:
    """Seconds since 1970 of "2026-11-16", "2026-11-16T08:00:00+01:00" (without a zone: UTC), or "7d" ago."""
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return now - float(ago[1]) * _SECONDS[ago[2]]
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(
            f"{flag} {text[:40]!r} is no moment: say 2026-11-16, 2026-11-16T08:00:00, or 90m, 24h, 7d ago"
        ) from None
