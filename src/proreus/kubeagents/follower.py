"""A thread that follows an API server, a `ClusterView` say, and writes what it is handed."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from proreus.kubeagents.cluster_view import FOLLOWED
from proreus.kubeclient.client import KubeClient
from proreus.kubeclient.errors import Unreachable, explained
from proreus.kubeclient.reflector import Change, Reflector, without_history
from proreus.kubeclient.resources import POD_DISRUPTION_BUDGETS, Resource
from proreus.model.errors import WorkError

Result = TypeVar("Result")
MakeClient = Callable[[], KubeClient]
_START_SECONDS = 60.0
_REFUSED_SECONDS = 3.0
"""That a kind may stay refused before nobody waits for it any longer: roles just bound take a moment."""
_LOOK_SECONDS = 0.1
_END_SECONDS = 5.0


class Follower:
    """Follows a cluster beside whatever else a process does."""

    def __init__(
        self,
        make_client: MakeClient,
        hear: Callable[[Change], None],
        resources: Sequence[Resource] = FOLLOWED,
    ) -> None:
        """make_client: called in the thread, whose loop the client belongs to; hear: told of every change."""
        self._make_client, self._hear, self._resources = make_client, hear, resources
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: KubeClient | None = None
        self._reflectors: list[Reflector] = []
        self._failure: BaseException | None = None
        self._synced = threading.Event()
        self._ended = threading.Event()
        self._main: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)

    def start(self) -> None:
        """Begin; `wait_synced` says when everything was listed once."""
        self._thread.start()

    def wait_synced(self, seconds: float = _START_SECONDS) -> None:
        """Until everything was listed once; a WorkError says what keeps it."""
        ends = time.monotonic() + seconds
        refused_since = math.inf
        while not self._synced.wait(_LOOK_SECONDS):
            now = time.monotonic()
            refused = any(one.refused and not one.synced.is_set() for one in tuple(self._reflectors))
            refused_since = min(refused_since, now) if refused else math.inf
            if now >= ends or now - refused_since >= _REFUSED_SECONDS:
                break
        if not self.synced:
            raise WorkError(f"the cluster could not be listed: {self.trouble or 'no answer'}")

    @property
    def synced(self) -> bool:
        """Whether everything was listed once."""
        return self._synced.is_set() and self._failure is None

    @property
    def trouble(self) -> str:
        """Why something cannot be followed just now; "": all is."""
        if self._failure is not None:
            return explained(self._failure, "" if self._client is None else self._client.server)
        troubles = [one for one in tuple(self._reflectors) if one.trouble]
        # What is refused stays so: that is to be mended first.
        return next((one.trouble for one in sorted(troubles, key=lambda one: not one.refused)), "")

    def call(self, ask: Callable[[KubeClient], Awaitable[Result]], seconds: float = 60.0) -> Result:
        """Have the client asked, from any thread; an ApiError where that fails or takes too long."""

        async def asked() -> Result:
            assert self._client is not None, "somebody waited for the first list"
            return await ask(self._client)

        assert self._loop is not None, "somebody started it"
        asking = asyncio.run_coroutine_threadsafe(asked(), self._loop)
        try:
            return asking.result(seconds)
        except TimeoutError:
            asking.cancel()
            raise Unreachable(f"no answer within {seconds:g} s", sent=True) from None

    def stop(self) -> None:
        """Follow no more, and close what is open."""
        if self._thread.ident is None:
            return
        if self._thread.is_alive() and self._main is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(self._main.cancel)
        self._ended.wait(_END_SECONDS)

    def _run(self) -> None:
        loop = self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(loop)
        try:
            self._main = loop.create_task(self._follow())
            with contextlib.suppress(asyncio.CancelledError):
                loop.run_until_complete(self._main)
        except BaseException as error:  # noqa: BLE001 - told to whoever waits
            self._failure = error
            self._synced.set()
        finally:
            loop.close()
            self._ended.set()

    async def _follow(self) -> None:
        self._client = self._make_client()
        try:
            # Asked before anything is followed: where nobody answers, that is said once, not for every kind.
            offered = [await self._offered(self._client, resource) for resource in self._resources]
            async with asyncio.TaskGroup() as tasks:
                for resource in offered:
                    reflector = Reflector(self._client, resource, trim=without_history)
                    reflector.subscribe(self._hear)
                    self._reflectors.append(reflector)
                    tasks.create_task(reflector.run())
                for reflector in self._reflectors:
                    await reflector.synced.wait()
                self._synced.set()
        finally:
            await self._client.close()

    @staticmethod
    async def _offered(client: KubeClient, resource: Resource) -> Resource:
        """Budgets are policy/v1 since 1.21, and policy/v1beta1 before."""
        if resource is not POD_DISRUPTION_BUDGETS:
            return resource
        return await client.discovery.first(resource, ("v1", "v1beta1")) or replace(resource, version="v1")
