"""What a server of ours asks of a dashboard that is handed to it: files for everybody, and answers.

The servers stand below the dashboard and do not know it; they say who asks, and check what they always check
(names, origins, tokens, sizes) before they ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

ANSWERS = "/dashboard/"
"""What begins so is answered to whoever may read; everything else of a dashboard is a file for anybody."""
LONGEST_BODY = 64 * 1024


@dataclass(frozen=True)
class PageRequest:
    """A question below ANSWERS."""

    method: str
    path: str
    """What follows ANSWERS."""
    client: str
    body: bytes = b""
    may_write: bool = False
    """Whether whoever asks may change anything."""


@dataclass(frozen=True)
class PageReply:
    """A whole answer."""

    body: bytes
    status: int
    headers: Mapping[str, str]


class Pages(Protocol):
    """A dashboard."""

    def file(self, path: str) -> PageReply | None:
        """The file at that path of the server, for anybody; None: there is none."""
        ...

    async def answer(self, request: PageRequest) -> PageReply:
        """What was asked, or why not."""
        ...

    def close(self) -> None:
        """Let go of whatever runs for it."""
        ...
