"""Moments as Kubernetes writes them: RFC 3339 in UTC, to the second, or to the microsecond."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated

import msgspec

_MOMENT = Annotated[datetime, msgspec.Meta(tz=True)]


def timestamp(seconds: float) -> str:
    """metav1.Time: "2026-11-16T00:47:20Z"."""
    return _whole_second(int(seconds))


def micro_timestamp(seconds: float) -> str:
    """metav1.MicroTime: "2026-11-16T00:47:20.123456Z"; leases and newer events state it so."""
    # Rounded as `datetime` rounds, of which only the seconds are asked, that many moments share.
    fraction, whole = math.modf(seconds)
    carry, micros = divmod(round(fraction * 1e6), 1_000_000)
    return f"{_whole_second(int(whole) + carry)[:-1]}.{micros:06d}Z"


def parse_timestamp(text: str) -> float:
    """Seconds since 1970 of either form; ValueError where it is neither."""
    return msgspec.convert(text, _MOMENT).timestamp()


@lru_cache(maxsize=64)
def _whole_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
