"""What is sent to an API and how it says no; free of the library that does the asking."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from proreus.model.errors import WorkError

JSON = "application/json"
ANSWER_SECONDS = 60.0
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


class ApiRefused(WorkError):
    """The API said no; `code` and `reason` say how."""

    def __init__(self, message: str, code: int, reason: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


class Unreachable(WorkError):
    """Nobody answers, or no longer."""


@dataclass(frozen=True)
class Body:
    content: bytes
    media_type: str = JSON
    answer_seconds: float = ANSWER_SECONDS
    """How long to wait for what comes of it."""

    @classmethod
    def of(cls, value: Any, media_type: str = JSON, answer_seconds: float = ANSWER_SECONDS) -> Body:
        """A value as JSON."""
        return cls(json.dumps(value).encode(), media_type, answer_seconds)


@dataclass(frozen=True)
class ApiAnswer:
    """What came back."""

    status: int
    content: Any
    """Of JSON its value, else text."""
    warnings: tuple[str, ...] = ()
    """What the API says besides, such as of fields that it does not know."""


_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')


def warnings_in(headers: Iterable[str]) -> tuple[str, ...]:
    """The texts of `Warning` headers, each in one line."""
    texts = (text for header in headers for text in _WARNING.findall(header))
    return tuple(" ".join(re.sub(r"\\(.)", r"\1", text).split()) for text in texts)
