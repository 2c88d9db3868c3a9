"""Calls to an etcd cluster: to a member that answers, with a user's token, in the protocol's errors.

aetcd's client knows one plain address and no way back after it went; its messages and stubs are used here
on channels of one's own, one for each member.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from aetcd import rpc

from proreus.engine.store.etcd.address import EtcdAddress
from proreus.engine.store.protocol import NoSuchLease, StoreError, StoreFull, Unavailable

_CHANNEL = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 6000),  # etcd takes one in five seconds for an attack
    ("grpc.keepalive_timeout_ms", 3000),
    ("grpc.http2.ping_timeout_ms", 3000),  # 60 s unless told, whatever the line above says
    ("grpc.http2.max_pings_without_data", 0),  # else a quiet watch asks its member once a minute
    ("grpc.use_local_subchannel_pool", 1),
)
_LOOK_SECONDS = 0.02
_PAUSE_SECONDS = 0.1
_AWAY_SECONDS = 1.5
"""A connection that broke is waited for so long."""
_LEADER = (("hasleader", "true"),)
"""A member without a leader says so at once, instead of keeping the caller waiting."""


class NotDone(Unavailable):
    """No answer, but for certain nothing was done."""

    uncertain = False


class EtcdError(StoreError):
    """What etcd refused, in its words."""

    def __init__(self, code: Any, details: str) -> None:
        super().__init__(f"etcd: {details}")
        self.code, self.details = code, details


@dataclass(frozen=True, slots=True)
class _Member:
    endpoint: str
    channel: Any
    stubs: dict[str, Any]

    @property
    def ready(self) -> bool:
        return bool(self.channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY)


class EtcdConnection:
    """One connection to each member; calls go to one of them as long as it answers."""

    def __init__(self, address: EtcdAddress, timeout: float) -> None:
        self._address, self._timeout = address, timeout
        credentials = _credentials(address)
        self._members = [_member(endpoint, credentials) for endpoint in address.endpoints]
        self._token = ""
        self._authenticating = asyncio.Lock()
        self._stood = False
        """Whether a connection ever stood."""
        self._away_since: float | None = None
        """Since when none does that did."""

    async def call(self, method: str, request: Any, *, repeatable: bool) -> Any:
        """One call and its answer, as `Service.Method`; what is repeatable is asked of others in turn."""
        until = _now() + self._timeout
        while True:
            member = await self._answering(until)
            try:
                return await self._ask(member, method, request, until, repeatable)
            except Unavailable as failure:
                self._turn_from(member)
                if (not repeatable and failure.uncertain) or _now() + _PAUSE_SECONDS >= until:
                    raise
                await asyncio.sleep(_PAUSE_SECONDS)

    @asynccontextmanager
    async def stream(self, method: str, first: Any) -> AsyncIterator[Any]:
        """A call in both directions, begun with one message."""
        member = await self._answering(_now() + self._timeout)
        call = _method(member, method)(metadata=await self._metadata(member))
        try:
            await call.write(first)
            yield call
        except grpc.aio.AioRpcError as error:
            failure = _translated(error)
            if isinstance(failure, Unavailable):
                self._turn_from(member)
            raise failure from error
        except (asyncio.InvalidStateError, grpc.aio.BaseError) as error:  # it had ended before it was used
            self._turn_from(member)
            raise NotDone(f"etcd: {member.endpoint} ended the call") from error
        finally:
            call.cancel()

    def forget_token(self) -> None:
        """The next call authenticates again."""
        self._token = ""

    async def close(self) -> None:
        """Let go of every member."""
        for member in self._members:
            await member.channel.close()

    async def _ask(self, member: _Member, method: str, request: Any, until: float, repeatable: bool) -> Any:
        # A member that hangs must leave time to ask another.
        seconds = max(0.001, until - _now()) / (2 if repeatable and len(self._members) > 1 else 1)
        for attempt in range(2):
            metadata = await self._metadata(member)
            try:
                return await _method(member, method)(request, timeout=seconds, metadata=metadata)
            except grpc.aio.AioRpcError as error:
                if _is_old_token(error) and self._address.user and not attempt:
                    self.forget_token()
                    continue
                raise _translated(error) from error
        raise AssertionError("the second attempt returns or raises")

    async def _answering(self, until: float) -> _Member:
        """The member asked last, or the next one whose connection stands."""
        while True:
            for member in self._members:
                if member.ready:
                    self._stood, self._away_since = True, None
                    return member
            now = _now()
            if self._away_since is None and self._stood:
                self._away_since = now
            # Where all have been away for some time, nobody is kept waiting for them any more.
            gone = self._away_since is not None and now - self._away_since >= _AWAY_SECONDS
            if gone or now >= until:
                raise NotDone(await self._why())
            await asyncio.sleep(_LOOK_SECONDS)

    async def _why(self) -> str:
        """What gRPC says of the first member, which knows why its connection does not stand."""
        member = self._members[0]
        others = f" (nor do {len(self._members) - 1} others)" if len(self._members) > 1 else ""
        try:
            await _method(member, "KV.Range")(rpc.RangeRequest(key=b"\0"), timeout=1.0)
        except grpc.aio.AioRpcError as error:
            return f"etcd: {member.endpoint} does not answer{others}: {error.details()}"
        return f"etcd: {member.endpoint} did not answer in time"

    def _turn_from(self, member: _Member) -> None:
        """Ask the others first."""
        if self._members[0] is member:
            self._members.append(self._members.pop(0))

    async def _metadata(self, member: _Member) -> tuple[tuple[str, str], ...]:
        if not self._address.user:
            return _LEADER
        async with self._authenticating:
            if not self._token:
                request = rpc.AuthenticateRequest(name=self._address.user, password=self._address.password)
                try:
                    answer = await _method(member, "Auth.Authenticate")(request, timeout=self._timeout)
                except grpc.aio.AioRpcError as error:
                    failure = _translated(error)
                    raise NotDone(str(failure)) if isinstance(failure, Unavailable) else failure from error
                self._token = answer.token
        return (*_LEADER, ("token", self._token))


def _credentials(address: EtcdAddress) -> Any:
    if address.ca is None:
        return None
    try:
        return grpc.ssl_channel_credentials(
            address.ca.read_bytes(),
            address.key.read_bytes() if address.key else None,
            address.cert.read_bytes() if address.cert else None,
        )
    except OSError as error:
        raise StoreError(f"{error.filename}: {error.strerror}") from error


def _member(endpoint: str, credentials: Any) -> _Member:
    channel = (
        grpc.aio.insecure_channel(endpoint, options=_CHANNEL)
        if credentials is None
        else grpc.aio.secure_channel(endpoint, credentials, options=_CHANNEL)
    )
    stubs = {
        "KV": rpc.KVStub(channel),
        "Lease": rpc.LeaseStub(channel),
        "Watch": rpc.WatchStub(channel),
        "Auth": rpc.AuthStub(channel),
    }
    return _Member(endpoint, channel, stubs)


def _method(member: _Member, method: str) -> Any:
    service, _, name = method.partition(".")
    return getattr(member.stubs[service], name)


def _is_old_token(error: Any) -> bool:
    details = error.details() or ""
    return "invalid auth token" in details or "revision of auth store is old" in details


def _translated(error: Any) -> StoreError:
    """etcd's error in the protocol's words; its texts are part of its interface (rpctypes/error.go)."""
    code, details = error.code(), error.details() or ""
    if "requested lease not found" in details:
        return NoSuchLease("etcd: there is no such lease")
    if "database space exceeded" in details:
        return StoreFull("etcd: no room to write: its quota is used up")
    if "no leader" in details or "too many requests" in details:
        return NotDone(f"etcd: {details}")
    if "user name is empty" in details:
        return StoreError("etcd: it wants a user and password, as in etcd://user:password@host:port")
    if "authentication failed" in details:
        return StoreError("etcd: the user or the password was refused")
    match code:
        case (
            grpc.StatusCode.UNAVAILABLE
            | grpc.StatusCode.DEADLINE_EXCEEDED
            | grpc.StatusCode.CANCELLED
            | grpc.StatusCode.INTERNAL
            | grpc.StatusCode.UNKNOWN  # "context deadline exceeded", of a member without a quorum
        ):
            return Unavailable(f"etcd: {details}")
    return EtcdError(code, details.removeprefix("etcdserver: "))


def _now() -> float:
    return asyncio.get_running_loop().time()
