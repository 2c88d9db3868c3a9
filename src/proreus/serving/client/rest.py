"""A client of the REST door, blocking and asyncio. `grpc` beside it has the same calls over gRPC.

    with RestClient("http://127.0.0.1:5000") as client:
        answer = client.predict(state)          # answer.action, answer.model_version, ...
        client.update(states, (actions, rewards, dones))

A connection stays open between calls. Where none can be made, the call is tried again a few times; a call
that was already sent is repeated only if repeating it changes nothing (not `update`).
"""

from __future__ import annotations

import asyncio
import http.client
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
import msgspec
import numpy as np
from numpy.typing import ArrayLike

from proreus.kernels.arrays import F64, I64
from proreus.model.errors import UsageError, WorkError
from proreus.serving.cluster_api.request import DecideAnswer, DecideRequest
from proreus.serving.messages import (
    DECIDED_RECORD,
    ENCODER,
    MARK,
    ErrorAnswer,
    Health,
    ModelsAnswer,
    PredictAnswer,
    PredictRequest,
    SwapAnswer,
    UpdateAnswer,
    UpdateRequest,
)

Answer = TypeVar("Answer")
Columns = tuple[Sequence[int], Sequence[float], Sequence[bool]]
_JSON, _BYTES = "application/json", "application/octet-stream"


class ServiceError(WorkError):
    """The service refused or failed; `code` says which, `field` where."""

    def __init__(self, message: str, code: str = "", field: str = "") -> None:
        super().__init__(message)
        self.code, self.field = code, field


@dataclass(frozen=True)
class ClientOptions:
    """How a client calls."""

    token: str = ""
    """Of the service, where it wants one."""
    timeout: float = 5.0
    """Seconds that a call may take."""
    retries: int = 3
    """How often a connection is tried again."""
    pause: float = 0.05
    """Seconds before the first retry; doubles with each."""
    certificate: str = ""
    """File of the certificate to trust, for TLS with one of your own."""


@dataclass(frozen=True)
class BatchPrediction:
    """The decisions of a batch."""

    actions: I64
    log_probs: F64
    model_version: int


@dataclass(frozen=True)
class _Call:
    """One request, ready to send."""

    method: str
    path: str
    body: bytes = b""
    media_type: str = _JSON
    repeatable: bool = True


def predict_request(state: ArrayLike, asked: dict[str, Any]) -> PredictRequest:
    """A state and options as the request; `asked`: deterministic, mask, top_k."""
    numbers = np.asarray(state, dtype=np.float64).tolist()
    mask = asked.get("mask")
    if mask is not None:
        asked = {**asked, "mask": np.asarray(mask, dtype=np.bool_).tolist()}
    return PredictRequest(numbers, **asked)


def update_request(states: Sequence[ArrayLike], columns: Columns, asked: dict[str, Any]) -> UpdateRequest:
    """Experience as the request; `asked`: log_probs, model_version."""
    actions, rewards, dones = columns
    return UpdateRequest(
        [np.asarray(state, dtype=np.float64).tolist() for state in states],
        list(map(int, actions)),
        list(map(float, rewards)),
        list(map(bool, dones)),
        **asked,
    )


def _batch_call(states: ArrayLike) -> _Call:
    block = np.ascontiguousarray(states, dtype="<f8")
    return _Call("POST", "/v1/predict/batch", block.tobytes(), _BYTES)


def _batch(body: bytes, version: str) -> BatchPrediction:
    records = np.frombuffer(body, dtype=DECIDED_RECORD)
    return BatchPrediction(
        records["action"].astype(np.int64), records["log_prob"].astype(np.float64), int(version)
    )


def _read(status: int, body: bytes, kind: type[Answer]) -> Answer:
    if status != 200:
        _refuse(status, body)
    return msgspec.json.decode(body, type=kind)


def _refuse(status: int, body: bytes) -> None:
    try:
        said = msgspec.json.decode(body, type=ErrorAnswer)
    except msgspec.DecodeError:
        raise ServiceError(f"the service answered {status}: {body[:200]!r}") from None
    raise ServiceError(said.error, said.code, said.field)


@dataclass(frozen=True)
class _Place:
    """Where the service is."""

    host: str
    port: int
    tls: ssl.SSLContext | None

    @classmethod
    def of(cls, url: str, certificate: str) -> _Place:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url!r} is not the address of a service, such as http://127.0.0.1:5000")
        tls = None
        if parts.scheme == "https":
            tls = ssl.create_default_context(cafile=certificate or None)
        return cls(parts.hostname, parts.port or (443 if tls else 80), tls)


class RestClient:
    """Blocking calls over one connection; threads take turns."""

    def __init__(self, url: str, options: ClientOptions | None = None) -> None:
        self.options = options or ClientOptions()
        self._place = _Place.of(url, self.options.certificate)
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> RestClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._drop()

    def predict(self, state: ArrayLike, **asked: Any) -> PredictAnswer:
        """What to do in this state; `asked`: deterministic, mask, top_k."""
        body = ENCODER.encode(predict_request(state, asked))
        status, body, _ = self._ask(_Call("POST", "/v1/predict", body))
        return _read(status, body, PredictAnswer)

    def predict_batch(self, states: ArrayLike) -> BatchPrediction:
        """What to do in each state, decided by one version."""
        status, body, headers = self._ask(_batch_call(states))
        if status != 200:
            _refuse(status, body)
        return _batch(body, headers["x-model-version"])

    def update(self, states: Sequence[ArrayLike], columns: Columns, **asked: Any) -> UpdateAnswer:
        """Report experience, columns: actions, rewards, dones; `asked`: log_probs, model_version."""
        body = ENCODER.encode(update_request(states, columns, asked))
        status, body, _ = self._ask(_Call("POST", "/v1/update", body, repeatable=False))
        return _read(status, body, UpdateAnswer)

    def decide(self, request: DecideRequest) -> DecideAnswer:
        """What to do with a pod in a cluster described in named fields."""
        status, body, _ = self._ask(_Call("POST", "/v1/decide", ENCODER.encode(request)))
        return _read(status, body, DecideAnswer)

    def health(self) -> Health:
        """Whether the service answers."""
        status, body, _ = self._ask(_Call("GET", "/health"))
        return _read(status, body, Health)

    def models(self) -> ModelsAnswer:
        """All versions of the model."""
        status, body, _ = self._ask(_Call("GET", "/v1/models"))
        return _read(status, body, ModelsAnswer)

    def promote(self, version: int) -> SwapAnswer:
        """Make a version live."""
        status, body, _ = self._ask(_Call("POST", f"/v1/models/{version}/promote"))
        return _read(status, body, SwapAnswer)

    def rollback(self) -> SwapAnswer:
        """Make the version live again that was live before."""
        status, body, _ = self._ask(_Call("POST", "/v1/models/rollback", repeatable=False))
        return _read(status, body, SwapAnswer)

    def _ask(self, call: _Call) -> tuple[int, bytes, dict[str, str]]:
        """Status, body and headers of the answer."""
        with self._lock:
            for attempt in range(self.options.retries + 1):
                sent = False
                try:
                    connection = self._connected()
                    headers = _headers(call, self.options)
                    connection.request(call.method, call.path, call.body or None, headers)
                    sent = True
                    response = connection.getresponse()
                    body = response.read()
                    return response.status, body, {k.lower(): v for k, v in response.getheaders()}
                except (OSError, http.client.HTTPException) as error:
                    self._drop()
                    if attempt == self.options.retries or (sent and not call.repeatable):
                        raise _unreachable(self._place, error) from error
                    time.sleep(self.options.pause * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            place, timeout = self._place, self.options.timeout
            self._connection = (
                http.client.HTTPConnection(place.host, place.port, timeout=timeout)
                if place.tls is None
                else http.client.HTTPSConnection(place.host, place.port, timeout=timeout, context=place.tls)
            )
            self._connection.connect()
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class AsyncRestClient:
    """The calls of a decision loop for asyncio; calls under way at once use a connection each."""

    def __init__(self, url: str, options: ClientOptions | None = None) -> None:
        self.options = options or ClientOptions()
        self._place = place = _Place.of(url, self.options.certificate)
        scheme = "http" if place.tls is None else "https"
        self._address = httpx.URL(scheme=scheme, host=place.host, port=place.port)
        self._http = _new_http(place)

    async def __aenter__(self) -> AsyncRestClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connections; a later call makes a new one."""
        http, self._http = self._http, _new_http(self._place)
        await http.aclose()

    async def predict(self, state: ArrayLike, **asked: Any) -> PredictAnswer:
        """What to do in this state; `asked`: deterministic, mask, top_k."""
        body = ENCODER.encode(predict_request(state, asked))
        status, body, _ = await self._ask(_Call("POST", "/v1/predict", body))
        return _read(status, body, PredictAnswer)

    async def predict_batch(self, states: ArrayLike) -> BatchPrediction:
        """What to do in each state, decided by one version."""
        status, body, headers = await self._ask(_batch_call(states))
        if status != 200:
            _refuse(status, body)
        return _batch(body, headers["x-model-version"])

    async def update(self, states: Sequence[ArrayLike], columns: Columns, **asked: Any) -> UpdateAnswer:
        """Report experience, columns: actions, rewards, dones; `asked`: log_probs, model_version."""
        body = ENCODER.encode(update_request(states, columns, asked))
        status, body, _ = await self._ask(_Call("POST", "/v1/update", body, repeatable=False))
        return _read(status, body, UpdateAnswer)

    async def decide(self, request: DecideRequest) -> DecideAnswer:
        """What to do with a pod in a cluster described in named fields."""
        status, body, _ = await self._ask(_Call("POST", "/v1/decide", ENCODER.encode(request)))
        return _read(status, body, DecideAnswer)

    async def health(self) -> Health:
        """Whether the service answers."""
        status, body, _ = await self._ask(_Call("GET", "/health"))
        return _read(status, body, Health)

    async def _ask(self, call: _Call) -> tuple[int, bytes, Mapping[str, str]]:
        for attempt in range(self.options.retries + 1):
            progress = _Progress()
            request = self._http.build_request(
                call.method,
                self._address.join(call.path),
                content=call.body or None,
                headers=_headers(call, self.options),
                extensions={"trace": progress.note},
            )
            try:
                async with asyncio.timeout(self.options.timeout):
                    response = await self._http.send(request)
                return response.status_code, response.content, response.headers
            except (OSError, httpx.RequestError) as error:
                if attempt == self.options.retries or (progress.sent and not call.repeatable):
                    raise _unreachable(self._place, error) from error
                await asyncio.sleep(self.options.pause * 2**attempt)
        raise AssertionError("the last attempt returns or raises")


class _Progress:
    """Whether any of a request may have reached the service: a call that it may have heard has an effect."""

    sent = False

    async def note(self, event: str, details: Mapping[str, Any]) -> None:
        """What httpx tells about each step of a request."""
        del details
        self.sent = self.sent or event.endswith(".send_request_headers.started")


def _new_http(place: _Place) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        verify=place.tls or False,  # False: there is no TLS and so nothing to verify
        trust_env=False,  # a service is called where it is, never through a proxy
        timeout=None,  # the clock runs over a whole call, not over each of its steps
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
    )


def _headers(call: _Call, options: ClientOptions) -> dict[str, str]:
    headers = {"content-type": call.media_type} if call.body else {}
    if call.method == "POST" and not call.body:
        headers[MARK] = "1"
    if options.token:
        headers["authorization"] = f"Bearer {options.token}"
    return headers


def _unreachable(place: _Place, error: Exception) -> ServiceError:
    says = str(error) or type(error).__name__
    return ServiceError(f"the service at {place.host}:{place.port} cannot be reached: {says}", "unreachable")
