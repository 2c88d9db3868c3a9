"""Bodies from servers that may be broken or hostile: bounded in bytes and in time, wherever they hang.

Everything runs in one event loop, since only there can a request be given up in the middle of a head that
never ends. Nothing is followed elsewhere, nothing is unpacked, and no proxy is asked.
"""

from __future__ import annotations

import asyncio
import fnmatch
import ipaddress
import math
import threading
from collections.abc import Coroutine, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

import httpx

from proreus.serving.messages import shortened
from proreus.worlds.inference.state.replicas import Absent, Unreadable

Result = TypeVar("Result")
_NOT_SERVING = frozenset({404, 502, 503, 504})
_MOST_ADDRESSES = 512
_LONGEST_AGE = 12
"""Digits of seconds."""


class Closed(Exception):
    """The fetcher was closed before there was an answer."""


@dataclass(frozen=True)
class FetchLimits:
    """What one body may take."""

    body_bytes: int = 4 * 1024 * 1024
    seconds: float = 5.0
    at_once: int = 32
    """Requests under way for one object: whoever is slow holds up nobody else's."""
    hosts: tuple[str, ...] = ()
    """Names (patterns) that may be asked; none: all."""


class Fetcher:
    """Asks servers from a thread of its own."""

    def __init__(self, limits: FetchLimits | None = None) -> None:
        self.limits = limits or FetchLimits()
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="scrape", daemon=True)
        self._thread.start()
        self._client = httpx.AsyncClient(
            trust_env=False,
            follow_redirects=False,
            timeout=httpx.Timeout(self.limits.seconds),
            limits=httpx.Limits(max_keepalive_connections=0),
            headers={
                "accept-encoding": "identity",
                "cache-control": "no-cache",
                "user-agent": "proreus-scaler",
            },
        )

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Have it done in the loop; raises Closed where the fetcher is, or is closed meanwhile."""
        with self._lock:
            if self._closed:
                work.close()
                raise Closed("nobody is asked any more")
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except CancelledError:
            raise Closed("given up") from None

    def close(self) -> None:
        """Give up what is under way: whoever waits for it hears so, else they would wait for ever."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        asyncio.run_coroutine_threadsafe(self._give_up(), self._loop).result(5.0)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5.0)
        self._loop.close()

    async def _give_up(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        for task in under_way:
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*under_way, return_exceptions=True), 3.0)
        await self._client.aclose()

    def slots(self) -> asyncio.Semaphore:
        """Those of one object."""
        return asyncio.Semaphore(self.limits.at_once)

    async def get(
        self,
        slots: asyncio.Semaphore,
        url: str,
        address: str,
        query: Sequence[tuple[str, str]] = (),
        oldest: float = math.inf,
    ) -> str | Absent | Unreadable:
        """The body at a URL; `address`: which of its host's is asked; `oldest`: seconds in a cache."""
        limits = self.limits
        try:
            async with asyncio.timeout(limits.seconds), slots:
                return await self._get(url, address, query, oldest)
        except TimeoutError:
            return Unreadable("too_slow", f"no whole answer within {limits.seconds:g} s")
        except httpx.ConnectError as error:
            return Absent(shortened(f"nobody answers: {error}"))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return Unreadable("failed", shortened(f"{type(error).__name__}: {error}"))

    async def _get(
        self, url: str, address: str, query: Sequence[tuple[str, str]], oldest: float
    ) -> str | Absent | Unreadable:
        parts = urlsplit(url)
        host = parts.hostname or ""
        where = f"[{address}]" if ":" in address else address or host
        asked = parts._replace(netloc=where if parts.port is None else f"{where}:{parts.port}")
        if query:
            asked = asked._replace(query=urlencode(query))
        names: dict[str, Any] = {"sni_hostname": host} if parts.scheme == "https" else {}
        request = self._client.build_request(
            "GET", asked.geturl(), headers={"host": parts.netloc}, extensions=names
        )
        request.extensions.setdefault("timeout", self._client.timeout.as_dict())
        response = await self._client.send(request, stream=True)
        try:
            return await self._body(response, oldest)
        finally:
            await response.aclose()

    async def _body(self, response: httpx.Response, oldest: float) -> str | Absent | Unreadable:
        status = response.status_code
        if status in _NOT_SERVING:
            return Absent(f"answers {status}")
        if status != 200:
            return Unreadable("refused", f"answers {status}")
        if response.headers.get("content-encoding", "identity") != "identity":
            return Unreadable("refused", "answers in another encoding than it was asked for")
        age = response.headers.get("age", "0").strip()[:_LONGEST_AGE]
        if age.isdecimal() and int(age) > oldest:
            return Unreadable("stale", f"its metrics were {int(age)} s in a cache")
        body = bytearray()
        async for piece in response.aiter_raw():
            body += piece
            if len(body) > self.limits.body_bytes:
                return Unreadable("too_large", f"answers with more than {self.limits.body_bytes} bytes")
        try:
            return body.decode()
        except UnicodeDecodeError:
            return Unreadable("malformed", "answers with something other than text")

    async def addresses(self, url: str) -> list[str] | Absent | Unreadable:
        """Of the host of a URL: a name without a cluster address stands for every replica's."""
        parts = urlsplit(url)
        host = parts.hostname or ""
        if not self.may_ask(host):
            return Unreadable("forbidden", f"{shortened(host)} is not among the hosts that may be asked")
        try:
            async with asyncio.timeout(self.limits.seconds):
                found = await self._loop.getaddrinfo(host, parts.port or 80, type=1)
        except TimeoutError:
            return Unreadable("too_slow", "the name is not resolved in time")
        except (OSError, UnicodeError) as error:
            return Absent(shortened(f"the name is not known: {error}"))
        addresses = sorted({str(entry[4][0]) for entry in found})[:_MOST_ADDRESSES]
        if any(_never_asked(address) for address in addresses):
            return Unreadable("forbidden", "an address of the link, or of nobody, is never asked")
        return addresses

    def may_ask(self, host: str) -> bool:
        """Whether a host is among those that may be asked."""
        return not self.limits.hosts or any(fnmatch.fnmatch(host, one) for one in self.limits.hosts)


def _never_asked(address: str) -> bool:
    """Clouds tell secrets to whoever asks at an address of the link."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    return parsed.is_link_local or parsed.is_multicast or parsed.is_unspecified
