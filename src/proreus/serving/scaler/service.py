"""A scaler as a whole: put together from its options, opened, and closed in the right order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from proreus.httpserver.host_names import bare
from proreus.model.errors import UsageError
from proreus.policies.catalogue import AnyPolicy
from proreus.policies.isolated_policy import IsolatedPolicy
from proreus.serving.admission import RequestAdmission
from proreus.serving.allowed_hosts import Visitors
from proreus.serving.metrics import Measurements
from proreus.serving.scaler.external_scaler import METRICS_HEALTH, ExternalScalerServer
from proreus.serving.scaler.http_fetcher import Fetcher, FetchLimits
from proreus.serving.scaler.scaled_objects import ScaledObjects, ScalerDependencies
from proreus.serving.scaler.shadow_log import ShadowLog
from proreus.serving.scaler.state_file import StateFile
from proreus.serving.scaler.trigger_metadata import Profile
from proreus.serving.server.grpc_base import GrpcOptions, Guards
from proreus.serving.server.http import HttpApp, HttpLimits
from proreus.serving.server.rest_server import RestServer
from proreus.serving.server.router import JSON, HandlerReply, Request, ResponseSpec, Route, Routes
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.wire_format import inference_strangers

_MESSAGE_BYTES = 256 * 1024
_BODY_BYTES = 1024
_METRICS = "text/plain"
_SEES_THE_FUTURE = frozenset({"oracle"})


@dataclass(frozen=True)
class ScalerServiceOptions:
    """Everything about a scaler but its addresses."""

    profile: Profile
    policies: tuple[str, ...] = ()
    """What metadata may name beside rules and the shipped checkpoint, just as it is given here."""
    fetch: FetchLimits = field(default_factory=FetchLimits)
    shadow_log: Path | None = None
    shadow_bytes: int = 64 * 1024 * 1024
    memory: Path | None = None
    """The file of what is remembered when the scaler starts anew."""
    credentials: tuple[Path, Path] | None = None
    """Certificate and key for TLS."""
    clients: Path | None = None
    """Who signs the certificates of those that may call."""
    rate: float = 0.0
    """Calls per second and client; 0: any."""
    threads: int = 8
    seed: int = 0
    clock: Callable[[], float] = time.time
    ticking: bool = True
    """Whether objects are looked at when nobody asks."""
    tick_seconds: float = 0.5
    """How often it is asked which of them are due; less where the clock runs faster than time."""


class ScalerHealth(msgspec.Struct, frozen=True):
    """That the scaler answers, and what it lacks."""

    status: str
    trouble: str = ""


class ScalerService:
    """From options to open doors, and back."""

    def __init__(self, options: ScalerServiceOptions) -> None:
        self.options = options
        self.measurements = Measurements()
        self._strangers = inference_strangers()
        """Code from elsewhere runs in a process of its own."""
        # What cannot be loaded is told at the start, not to KEDA; and it stays loaded, whoever asks when.
        self._named = [self._loaded(name) for name in options.policies]
        self._count_replaced()
        self._fetcher = Fetcher(options.fetch)
        self._shadow_log = (
            None if options.shadow_log is None else ShadowLog(options.shadow_log, options.shadow_bytes)
        )
        self.objects = ScaledObjects(
            ScalerDependencies(
                self._policy,
                lru_cache(maxsize=256)(options.profile),
                self._fetcher,
                self.measurements,
                options.clock,
                self._shadow_log,
                None if options.memory is None else StateFile(options.memory),
                options.tick_seconds,
            )
        )
        self._admission = RequestAdmission(None, options.rate)
        self._grpc: ExternalScalerServer | None = None
        self._http: RestServer | None = None

    def _policy(self, name: str) -> AnyPolicy:
        """Nothing that a caller sends names a file, unless the operator has named it before."""
        known = name in self.options.policies or name.partition("@")[0] in POLICIES.names
        if name in _SEES_THE_FUTURE:
            raise UsageError(f"{name!r} sees what will come, which nobody tells a scaler")
        if not known:
            rules = [name for name in POLICIES.names if name not in _SEES_THE_FUTURE]
            there = ", ".join((*rules, *self.options.policies))
            raise UsageError(f"{name!r} is none of {there}; others are given with --policy")
        return self._loaded(name)

    def _loaded(self, name: str) -> AnyPolicy:
        if POLICIES.is_own(name):
            return POLICIES.make(name, seed=self.options.seed)
        return self._strangers.policy(name, self.options.seed)

    def _count_replaced(self) -> None:
        hosts = [policy.host for policy in self._named if isinstance(policy, IsolatedPolicy)]
        if hosts:
            self.measurements.gauge(
                "proreus_policy_replaced",
                "How often the process of a policy from elsewhere was ended.",
                lambda: sum(host.replaced for host in hosts),
            )

    def open_grpc(self, host: str, port: int) -> int:
        """Open the door that KEDA knocks on; the port."""
        place = f"[{bare(host)}]:{port}" if ":" in bare(host) else f"{host}:{port}"
        guards = Guards(self._admission, self.measurements)
        options = GrpcOptions(self.options.threads, message_bytes=_MESSAGE_BYTES)
        self._grpc = ExternalScalerServer(self.objects, guards, options)
        found = self._grpc.start(place, self.options.credentials, self.options.clients)
        if self.options.ticking:
            self.objects.start()
        return found

    def open_http(self, host: str, port: int, allowed: tuple[str, ...] = ()) -> int:
        """Open the door to /metrics and /health; the port."""
        visitors = Visitors.of(host, allowed, token=False, anonymous_updates=False)
        limits = HttpLimits(body_bytes=_BODY_BYTES)
        app = HttpApp(self._routes(), self._admission, self.measurements, limits, visitors)
        self._http = RestServer(app)
        return self._http.start(host, port, self.options.credentials)

    def _routes(self) -> Routes:
        health = Route(
            self._health, "Whether it answers.", ResponseSpec("It does.", {JSON: ScalerHealth}), open=True
        )
        what = {_METRICS: {"type": "string"}}
        metrics = Route(self._metrics, "What was counted.", ResponseSpec("Prometheus' text format.", what))
        return {"/health": {"GET": health}, "/metrics": {"GET": metrics}}

    def _health(self, request: Request) -> HandlerReply:
        del request
        trouble = self.check_metrics()
        return HandlerReply(msgspec.json.encode(ScalerHealth("degraded" if trouble else "ok", trouble)))

    def check_metrics(self) -> str:
        """What is wrong with the metrics of any object; the gRPC health check is told, too."""
        trouble = self.objects.trouble()
        if self._grpc is not None:
            self._grpc.tell_health(METRICS_HEALTH, serving=not trouble)
        return trouble

    def _metrics(self, request: Request) -> HandlerReply:
        del request
        headers = ((b"content-type", CONTENT_TYPE_LATEST.encode()),)
        return HandlerReply(self.measurements.exposition(), headers=headers)

    def stop(self, seconds: float) -> None:
        """Answer what has been asked, then let go of everything; the seconds are for all of it."""
        until = time.monotonic() + seconds
        self.objects.end_looking()
        if self._grpc is not None:
            self._grpc.drain()
            self._grpc.stop(seconds)
        self._strangers.close()
        self._fetcher.close()  # before threads are waited for, which may wait for it
        if self._http is not None:
            self._http.stop(max(until - time.monotonic(), 0.0))
        self.objects.stop()
        if self._shadow_log is not None:
            self._shadow_log.close()
