"""Lists as they are sent: written some objects at a time, so that others have their turn, and long ones in
portions."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import msgspec

from proreus.engine.api.k8s.negotiation import Form
from proreus.engine.api.k8s.pagination import ListPages, Span
from proreus.engine.api.server.reply import encode
from proreus.engine.objects.kinds import Kind
from proreus.engine.objects.offload import LoopPauses
from proreus.engine.objects.registry import Listed
from proreus.engine.objects.selectors import Selection

_AT_A_TIME = 8
"""Objects that are written in one go: together they may be megabytes."""


@dataclass(frozen=True, slots=True)
class ListSheet:
    """A list that is asked for: its objects come first and its metadata last, since where to go on is known
    only then."""

    form: Form
    span: Span
    chosen: Selection
    limit: int = 0
    """Objects that are read for it at most; 0: all."""

    async def begin(self, first: Listed) -> bytes:
        """The list up to the last object of the first portion."""
        whole = self.form.many(self.span.kind, [], {})
        rows = _rows(whole)
        del whole[rows], whole["metadata"]
        return encode(whole)[:-1] + b',"%s":[' % rows.encode() + await self._written(first)

    def ends(self, listed: Listed, count: int = 0) -> bool:
        """Whether nothing follows this portion; count: objects that were read before it."""
        return not listed.after or 0 < self.limit <= count + len(listed.items)

    def end(self, last: Listed) -> bytes:
        """What stands behind the last object."""
        metadata: dict[str, Any] = {"resourceVersion": str(last.revision)}
        if last.after:
            metadata["continue"] = _continue(last.after, last.revision)
            if self.chosen.everything:
                metadata["remainingItemCount"] = last.remaining
        return b'],"metadata":' + encode(metadata) + b"}"

    async def pieces(
        self, portions: ListPages, client: str, begun: bytes, first: Listed
    ) -> AsyncGenerator[bytes, None]:
        """All of it, each portion counted while it is sent."""
        count, size, after = len(first.items), first.size, first.after
        revision, empty = first.revision, begun.endswith(b"[")
        done, ending = self.ends(first), self.end(first)
        del first  # its objects are written
        piece = begun
        while True:
            async with portions.counted(client, max(size, len(piece))):
                yield piece
            if done:
                break
            piece = b""
            async with portions.turn(client):
                listed = await portions.read(self.span, after, revision, max(0, self.limit - count))
                piece = await self._written(listed)
            done, ending = self.ends(listed, count), self.end(listed)
            count, size, after = count + len(listed.items), listed.size, listed.after
            del listed
            if piece and not empty:
                piece = b"," + piece
            empty = empty and not piece
        yield ending

    async def _written(self, listed: Listed) -> bytes:
        return await _written(self.form, self.span.kind, await chosen_of(listed.items, self.chosen))


async def chosen_of(items: list[dict[str, Any]], chosen: Selection) -> list[dict[str, Any]]:
    """Those that were chosen."""
    if chosen.everything:
        return items
    matching, pauses = [], LoopPauses()
    for obj in items:
        if chosen.matches(obj):
            matching.append(obj)
        if pauses.due:
            await pauses.take()
    return matching


async def encoded(form: Form, kind: Kind, items: list[dict[str, Any]], metadata: dict[str, Any]) -> bytes:
    """A whole list."""
    whole = form.many(kind, [], metadata)
    rows = _rows(whole)
    del whole[rows]
    return encode(whole)[:-1] + b',"%s":[' % rows.encode() + await _written(form, kind, items) + b"]}"


async def _written(form: Form, kind: Kind, items: list[dict[str, Any]]) -> bytes:
    pieces, pauses = [], LoopPauses()
    for start in range(0, len(items), _AT_A_TIME):
        whole = form.many(kind, items[start : start + _AT_A_TIME], {})
        pieces.append(encode(whole[_rows(whole)])[1:-1])
        if pauses.due:
            await pauses.take()
    return b",".join(pieces)


def _rows(whole: dict[str, Any]) -> str:
    return "rows" if "rows" in whole else "items"


def _continue(after: str, revision: int) -> str:
    token = msgspec.json.encode({"rv": revision, "start": after})
    return base64.urlsafe_b64encode(token).decode().rstrip("=")
