"""Follows every change by watches that go on where they were, over any number of restarts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.engine.faults.client import PATHS, Client
from tests.engine.faults.laws import Laws

FOLLOWED = ("nodes", "pods", "deployments", "jobs", "configmaps", "leases")


class History:
    """What the watches told, held against the laws."""

    def __init__(self, client: Client) -> None:
        self.laws = Laws()
        self._client = client
        self._last: dict[str, set[tuple[str, str]]] = {kind: set() for kind in FOLLOWED}
        """What has been told of the newest revision: uids and types."""

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[History]:
        """The watches run as long as the block lasts; one that cannot go on is an error."""
        for kind in FOLLOWED:
            items, revision = await self._client.list(kind)
            for item in sorted(items, key=lambda one: int(one["metadata"]["resourceVersion"])):
                self.laws.take(kind, "ADDED", item)
            self.laws.newest[kind] = revision
        tasks = [asyncio.create_task(self._follow(kind)) for kind in FOLLOWED]
        try:
            yield self
        finally:
            for task in tasks:
                if task.done():
                    task.result()
                task.cancel()

    async def until_told(self, seconds: float = 30.0) -> None:
        """What the watches told is what stands, as lists say it."""
        for kind in FOLLOWED:
            for attempt in range(round(seconds / 0.1)):
                items, revision = await self._client.list(kind)
                listed = {item["metadata"]["uid"]: int(item["metadata"]["resourceVersion"]) for item in items}
                if listed == self.laws.standing[kind]:
                    break
                assert attempt < seconds / 0.1 - 1, (kind, revision, self.laws.newest[kind])
                await asyncio.sleep(0.1)
            if revision < self.laws.newest[kind]:
                self.laws.broken.append(f"{kind}: {self.laws.newest[kind]} was told, {revision} stands")
        self.laws.check_room()

    async def _follow(self, kind: str) -> None:
        while True:
            # A transaction has one revision, of which a broken stream may have told a part: ask for it again.
            after = max(1, self.laws.newest[kind] - 1)
            address = f"{self._client.server}{PATHS[kind]}?watch=1&resourceVersion={after}&timeoutSeconds=300"
            try:
                async with self._client.http.stream("GET", address, timeout=None) as stream:
                    if stream.status_code == 200:
                        async for line in stream.aiter_lines():
                            self._take(kind, json.loads(line))
            except (httpx.HTTPError, json.JSONDecodeError):  # the server has died, in the middle of a line
                await asyncio.sleep(0.02)

    def _take(self, kind: str, event: dict[str, Any]) -> None:
        obj = event["object"]
        if event["type"] == "ERROR":
            assert obj["code"] == 503, obj  # a history with a hole proves nothing
            return
        mark = obj["metadata"]["uid"], event["type"]
        revision, newest = int(obj["metadata"]["resourceVersion"]), self.laws.newest[kind]
        if revision > newest:
            self._last[kind] = set()
        elif mark in self._last[kind] or self.laws.standing[kind].get(mark[0]) == revision:
            return
        self._last[kind].add(mark)
        self.laws.take(kind, event["type"], obj)
