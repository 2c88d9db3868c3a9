"""One of several agents acts, by a Lease object as Kubernetes' own components do, and with a fence.

The leader renews its Lease every 2 s; who sees one that was not renewed for 15 s of its own clock takes it. A
leader that could not renew for 10 s stops by itself. That alone does not stop one that was halted in the
middle of a write. So there is a second object, the fence, which every new leader changes and nobody else:
what a leader writes holds only as long as the fence is at the leader's own revision, in one transaction.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from proreus.engine.objects.errors import AlreadyExists, Conflict, NotFound, StatusError
from proreus.engine.objects.kinds import LEASE
from proreus.engine.objects.registry import Registry
from proreus.engine.store.protocol import Unchanged

NAMESPACE = "kube-system"
FAREWELL_SECONDS = 2.0
"""So long a process that ends waits for the store to take note of it."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds, as kube-scheduler has them."""

    lease: float = 15.0
    """So long after its last renewal a Lease is anybody's."""
    renew: float = 10.0
    """So long after its last renewal the leader stops by itself."""
    retry: float = 2.0
    """Between two attempts to renew or to take."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease:
            raise ValueError("a leader retries before it has to renew, and renews before its lease ends")


@dataclass
class ObservedLease:
    """What is known of the Lease: who had it when, by the clock of whoever looks."""

    holder: str = ""
    version: str = ""
    changed: float = 0.0

    def see(self, lease: dict[str, Any], now: float) -> None:
        """The Lease as it stands."""
        version = lease["metadata"]["resourceVersion"]
        if version != self.version:
            self.version, self.changed = version, now
            self.holder = (lease.get("spec") or {}).get("holderIdentity") or ""

    def free(self, me: str, now: float, times: LeaseTimes) -> bool:
        """Whether it may be taken: nobody has it, I have it, or it has not been renewed for long enough."""
        return self.holder in ("", me) or now - self.changed > times.lease


@dataclass(frozen=True)
class Term:
    """One time of leading, for those who write in it."""

    fence: Unchanged
    """The condition of every write."""
    fenced: Callable[[], None]
    """Called where it refused one."""


class Leader:
    """Stands for election under a name; see the module."""

    def __init__(
        self,
        registry: Registry,
        name: str,
        identity: str,
        times: LeaseTimes | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._registry, self._name, self.identity = registry, name, identity
        self._times, self._clock = times or LeaseTimes(), clock
        self._observed = ObservedLease()
        self._renewed = 0.0
        self._fence: Unchanged | None = None
        self.changed = asyncio.Event()
        """Set whenever leadership came or went; who waits for it clears it."""

    @property
    def fence(self) -> Unchanged | None:
        """The condition that this leader's writes must hold on; None while it does not lead."""
        if self._fence is not None and self._clock() - self._renewed >= self._times.renew:
            self._lose("could not renew in time")
        return self._fence

    @property
    def mandate(self) -> Unchanged | None:
        """The same, as whoever writes shows it."""
        return self.fence

    @property
    def term(self) -> Term | None:
        """The time of leading that is now; None while it does not lead."""
        fence = self.fence
        return None if fence is None else Term(fence, self.fenced)

    async def run(self) -> None:
        """Take the Lease when it is free and keep it, until cancelled."""
        while True:
            try:
                await self._attempt()
            except StatusError as error:
                _log.warning("%s: %s", self._name, error)
            await asyncio.sleep(self._times.retry)

    def fenced(self) -> None:
        """A write was refused by the fence: somebody leads who thinks that this one does not."""
        if self._fence is not None:
            self._lose("the fence was moved")

    async def resign(self) -> None:
        """Let go of the Lease at once, so that nobody has to wait for its end."""
        if self._fence is None:
            return
        self._lose("resigned")

        def change(lease: dict[str, Any]) -> dict[str, Any] | None:
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") != self.identity:
                return None
            return {**lease, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}

        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._registry.edit(LEASE, NAMESPACE, self._name, change)
        except (StatusError, TimeoutError) as error:  # whoever ends must not be kept by a store that is away
            why = str(error) or "the store does not answer"
            _log.warning("%s: the Lease was not given back, others wait for its end: %s", self._name, why)

    async def _attempt(self) -> None:
        """One look at the Lease, and what follows from it."""
        now = self._clock()
        try:
            lease = await self._registry.get(LEASE, NAMESPACE, self._name)
        except NotFound:
            await self._create()
            return
        self._observed.see(lease, now)
        if self._fence is not None and self._observed.holder != self.identity:
            self._lose(f"{self._observed.holder or 'nobody'} leads")
        if not self._observed.free(self.identity, now, self._times):
            return
        spec = lease.get("spec") or {}
        taken = spec.get("holderIdentity") != self.identity
        renewed = {**spec, **self._record(), "leaseTransitions": spec.get("leaseTransitions", 0) + taken}
        if not taken:
            renewed["acquireTime"] = spec.get("acquireTime", renewed["acquireTime"])
        try:
            lease = await self._registry.replace(LEASE, {**lease, "spec": renewed})
        except Conflict:
            return  # somebody was faster
        await self._held(lease, now)

    async def _create(self) -> None:
        now = self._clock()
        try:
            lease = await self._registry.create(LEASE, _lease(self._name, self._record()))
        except AlreadyExists:
            return
        await self._held(lease, now)

    async def _held(self, lease: dict[str, Any], now: float) -> None:
        """The Lease is mine since `now`; who was not leading before moves the fence first."""
        self._observed.see(lease, now)
        self._renewed = now
        if self._fence is None:
            revision = await self._move_fence()
            self._fence = Unchanged(LEASE.key(NAMESPACE, self._fence_name), revision)
            _log.info("%s: %s leads", self._name, self.identity)
            self.changed.set()

    async def _move_fence(self) -> int:
        """From now on nobody who led before can write; the revision of that."""
        record = self._record()

        def change(lease: dict[str, Any]) -> dict[str, Any]:
            before = lease.get("spec")
            transitions = 0 if before is None else before.get("leaseTransitions", 0) + 1
            return {**lease, "spec": {**record, "leaseTransitions": transitions}}

        named = {"metadata": {"name": self._fence_name, "namespace": NAMESPACE}}
        fence = await self._registry.create_or_edit(LEASE, named, change)
        return int(fence["metadata"]["resourceVersion"])

    @property
    def _fence_name(self) -> str:
        return f"{self._name}-fence"

    def _record(self) -> dict[str, Any]:
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._times.lease)),
            "acquireTime": stamp,
            "renewTime": stamp,
        }

    def _lose(self, why: str) -> None:
        self._fence = None
        _log.info("%s: %s leads no longer: %s", self._name, self.identity, why)
        self.changed.set()


def _lease(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}
