"""One of several processes acts, by a Lease object as Kubernetes' own components do.

Nobody's clock is compared with another's: a Lease is free when this process has not seen it change for its
whole duration, by a clock that runs while the machine sleeps. A leader counts from the moment before it asked
to renew, and stops by itself well before others may take over. Bindings need no more: a server gives a pod a
node once, whoever asks.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from proreus.kubeclient.client import KubeClient, Object
from proreus.kubeclient.errors import AlreadyExists, ApiError, Conflict, NotFound
from proreus.kubeclient.resources import LEASES
from proreus.model.errors import ProreusError

_log = logging.getLogger(__name__)
_FAREWELL_SECONDS = 2.0


def sleepless_clock() -> float:
    """Seconds that pass also while the machine is suspended."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


@dataclass(frozen=True)
class LeaseDurations:
    """Seconds, as kube-scheduler has them."""

    lease: float = 15.0
    """So long after its last change a Lease is anybody's."""
    renew: float = 10.0
    """So long after its last renewal the leader stops by itself."""
    retry: float = 2.0
    """Between two attempts to renew or to take."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease:
            raise ValueError("a leader retries before it has to renew, and renews before its lease ends")


@dataclass
class _Observed:
    """What is known of the Lease: who had it when, by the clock of whoever looks."""

    holder: str = ""
    version: str = ""
    changed: float = 0.0
    duration: float = 0.0

    def see(self, lease: Object, now: float) -> None:
        version = lease["metadata"]["resourceVersion"]
        if version != self.version:
            spec = lease.get("spec") or {}
            self.version, self.changed = version, now
            self.holder = spec.get("holderIdentity") or ""
            self.duration = float(spec.get("leaseDurationSeconds") or 0)


class LeaseElection:
    """Stands for election under a name."""

    def __init__(
        self,
        client: KubeClient,
        name: tuple[str, str],
        identity: str,
        durations: LeaseDurations | None = None,
        clock: Callable[[], float] = sleepless_clock,
    ) -> None:
        """name: namespace and name of the Lease."""
        self._client, (self._namespace, self._name), self.identity = client, name, identity
        self._durations, self._clock = durations or LeaseDurations(), clock
        self._observed = _Observed()
        self._renewed = 0.0
        self._term: int | None = None
        self._terms = 0
        self.changed = asyncio.Event()
        """Set whenever leadership came or went; who waits for it clears it."""
        self.trouble = ""
        """Why the Lease could not be looked at; "": it could."""

    @property
    def term(self) -> int | None:
        """The number of this process' time of leading; None while it does not lead."""
        if self._term is not None and self._clock() - self._renewed >= self._durations.renew:
            self._lose("could not renew in time")
        return self._term

    @property
    def holder(self) -> str:
        """Who was last seen to have it."""
        return self._observed.holder

    async def run(self) -> None:
        """Take the Lease when it is free and keep it, until cancelled."""
        while True:
            try:
                # Who hangs must not be believed for longer than it may lead.
                async with asyncio.timeout(self._durations.renew / 2):
                    await self._attempt()
                self.trouble = ""
            except (ProreusError, TimeoutError) as error:
                trouble = str(error) or "the server does not answer"
                if trouble != self.trouble:
                    _log.warning("lease %s/%s: %s", self._namespace, self._name, trouble)
                self.trouble = trouble
            await asyncio.sleep(self._durations.retry)
            _ = self.term  # so that whoever waits learns in time that it is over

    async def resign(self) -> None:
        """Let go of the Lease at once, so that nobody has to wait for its end."""
        if self._term is None:
            return
        self._lose("resigned")
        try:
            async with asyncio.timeout(_FAREWELL_SECONDS):
                lease = await self._client.get(LEASES, self._name, self._namespace)
                spec = lease.get("spec") or {}
                if spec.get("holderIdentity") == self.identity:
                    given = {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}
                    await self._client.replace(LEASES, {**lease, "spec": given})
        except (ApiError, TimeoutError) as error:
            why = str(error) or "the server does not answer"
            _log.warning("the Lease was not given back, others wait for its end: %s", why)

    async def _attempt(self) -> None:
        """One look at the Lease, and what follows from it."""
        now = self._clock()
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            await self._create()
            return
        self._observed.see(lease, self._clock())
        if self._term is not None and self._observed.holder != self.identity:
            self._lose(f"{self._observed.holder or 'nobody'} leads")
        if not self._free():
            return
        spec = lease.get("spec") or {}
        taken = spec.get("holderIdentity") != self.identity
        transitions = int(spec.get("leaseTransitions") or 0) + taken
        renewed = {**spec, **self._record(), "leaseTransitions": transitions}
        if not taken:
            renewed["acquireTime"] = spec.get("acquireTime", renewed["acquireTime"])
        try:
            lease = await self._client.replace(LEASES, {**lease, "spec": renewed})
        except Conflict:
            return  # somebody was faster
        self._held(lease, now)

    def _free(self) -> bool:
        """Nobody has it, I have it, or it has not changed for as long as its holder asked for."""
        observed = self._observed
        patience = max(observed.duration, self._durations.lease)
        return observed.holder in ("", self.identity) or self._clock() - observed.changed > patience

    async def _create(self) -> None:
        now = self._clock()
        lease = {"metadata": {"name": self._name, "namespace": self._namespace}, "spec": self._record()}
        try:
            lease = await self._client.create(LEASES, lease)
        except AlreadyExists:
            return
        self._held(lease, now)

    def _held(self, lease: Object, asked: float) -> None:
        """The Lease is mine, since before it was asked for."""
        self._observed.see(lease, self._clock())
        self._renewed = asked
        if self._term is None and self._clock() - asked < self._durations.renew:
            self._terms += 1
            self._term = self._terms
            _log.info("lease %s/%s: %s leads", self._namespace, self._name, self.identity)
            self.changed.set()

    def _record(self) -> Object:
        # For people to read: nobody's decision depends on this clock.
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._durations.lease)),
            "acquireTime": stamp,
            "renewTime": stamp,
        }

    def _lose(self, why: str) -> None:
        self._term = None
        _log.info("lease %s/%s: %s leads no longer: %s", self._namespace, self._name, self.identity, why)
        self.changed.set()
