"""An HTTP client that asks until it has a definite answer, whatever happens to the servers meanwhile."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.engine.faults.processes import TOKEN

PATHS = {
    "pods": "/api/v1/namespaces/default/pods",
    "configmaps": "/api/v1/namespaces/default/configmaps",
    "deployments": "/apis/apps/v1/namespaces/default/deployments",
    "replicasets": "/apis/apps/v1/namespaces/default/replicasets",
    "jobs": "/apis/batch/v1/namespaces/default/jobs",
    "nodes": "/api/v1/nodes",
    "leases": "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases",
}
_MERGE = {"content-type": "application/merge-patch+json"}
_LONGEST_SECONDS = float(os.environ.get("PROREUS_ANSWER_SECONDS", "120"))
"""A row of ten kills on a machine that others use: each start may take half a minute there."""
_UNCLEAR = (429, 500, 503, 504)
"""Not done, or nobody knows: to be asked again."""


@dataclass
class Client:
    """Asks the first server that answers; counts what it met."""

    servers: tuple[str, ...]
    token: str = TOKEN
    met: Counter[str] = field(default_factory=Counter)
    longest: float = 0.0
    """Seconds that the slowest definite answer took, retries included."""
    _first: int = 0
    http: httpx.AsyncClient = field(default_factory=lambda: httpx.AsyncClient(timeout=10.0))

    def __post_init__(self) -> None:
        if self.token:
            self.http.headers["authorization"] = f"Bearer {self.token}"

    @property
    def server(self) -> str:
        """The one that is asked now."""
        return self.servers[self._first % len(self.servers)]

    async def close(self) -> None:
        """Let go of its connections."""
        await self.http.aclose()

    async def once(self, method: str, path: str, body: Any = None) -> httpx.Response | None:
        """One attempt; None where no whole answer came."""
        headers = _MERGE if method == "PATCH" else None
        try:
            return await self.http.request(method, self.server + path, json=body, headers=headers)
        except httpx.HTTPError:
            self._first += 1
            return None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        """Until it is definitely done or definitely refused."""
        begun = time.monotonic()
        while True:
            answer = await self.once(method, path, body)
            if answer is None:
                self.met["no answer"] += 1
            elif answer.status_code in _UNCLEAR:
                self.met[f"{answer.status_code}"] += 1
            else:
                self.longest = max(self.longest, time.monotonic() - begun)
                return answer.status_code, answer.json()
            waited = time.monotonic() - begun
            assert waited < _LONGEST_SECONDS, f"no answer to {method} {path} for {waited:.0f} s"
            await asyncio.sleep(0.05)

    async def list(self, kind: str) -> tuple[list[dict[str, Any]], int]:
        """What stands, and the revision that it is true of."""
        code, listed = await self.ask("GET", PATHS[kind])
        assert code == 200, listed
        return listed["items"], int(listed["metadata"]["resourceVersion"])
