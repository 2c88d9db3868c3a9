"""An extender as a whole: put together from its options, opened, and closed in the right order."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from prometheus_client import CONTENT_TYPE_LATEST

from proreus.engine.scheduler.decider import GuardedPolicy
from proreus.kubeagents.cluster_view import ClusterView
from proreus.kubeagents.extender.answers import Extender, ExtenderOptions
from proreus.kubeagents.extender.messages import encode, read_args, read_binding, read_preemption
from proreus.kubeagents.follower import Follower, MakeClient
from proreus.model.errors import InputError
from proreus.policies.isolated_policy import Strangers
from proreus.serving.admission import RequestAdmission
from proreus.serving.allowed_hosts import Visitors
from proreus.serving.messages import Refusal, Refused
from proreus.serving.metrics import Measurements
from proreus.serving.server.http import HttpApp, HttpLimits
from proreus.serving.server.rest_server import RestServer
from proreus.serving.server.router import JSON, HandlerReply, Request, ResponseSpec, Route, Routes
from proreus.worlds.pods.policies.catalogue import PolicyOptions

_ANY_OBJECT: dict[str, Any] = {"type": "object"}
_TEXT: dict[str, Any] = {"type": "string"}
_BODY_BYTES = 96 * 1024 * 1024
"""Whole nodes of 5,000 with their images are some 50 MiB."""


@dataclass(frozen=True)
class ExtenderServiceOptions:
    """Everything about an extender but its addresses."""

    policy: str = "learned"
    policies: PolicyOptions = field(default_factory=lambda: PolicyOptions(kube_percentage=100, preempt=False))
    deadline: float = 0.1
    """Seconds that the policy has for an answer."""
    binds: bool = False
    """Whether it writes bindings, with the GPUs that a pod was given."""
    answers: ExtenderOptions = field(default_factory=ExtenderOptions)
    credentials: tuple[Path, Path] | None = None
    """Certificate and key for TLS."""
    clients: Path | None = None
    """Who signs the certificates of those that may ask."""
    seed: int = 0


class ExtenderHealth(msgspec.Struct, frozen=True):
    """Whether the cluster is followed."""

    status: str
    trouble: str = ""


class ExtenderService:
    """From options to open doors, and back."""

    def __init__(
        self,
        options: ExtenderServiceOptions,
        make_client: MakeClient,
        strangers: Strangers | None = None,
    ) -> None:
        """strangers: where policies from elsewhere run; an error where the policy is not known."""
        self.options, self._strangers = options, strangers
        self.measurements = Measurements()
        self._policy = GuardedPolicy(
            options.policy, options.policies, options.seed, options.deadline, strangers
        )
        self.view = ClusterView()
        self.follower = Follower(make_client, self.view.hear)
        self.extender = Extender(
            self.view, self._policy, options.answers, self._bind if options.binds else None
        )
        self.extender.ready = lambda: self.follower.synced
        self._doors: list[RestServer] = []

    def start(self, seconds: float = 60.0) -> None:
        """Compile, and list the cluster; a WorkError says what keeps it."""
        self.follower.start()
        self._policy.warm_up()
        self.follower.wait_synced(seconds)

    def open_extender(self, host: str, port: int, allowed: tuple[str, ...] = ()) -> int:
        """The door that kube-scheduler knocks on; the port."""
        visitors = Visitors.of(host, allowed, token=False, anonymous_updates=True)
        app = HttpApp(
            self._verbs(),
            RequestAdmission(None),
            self.measurements,
            HttpLimits(body_bytes=_BODY_BYTES, idle_seconds=120.0),
            visitors,
        )
        door = RestServer(app)
        self._doors.append(door)
        return door.start(host, port, self.options.credentials, self.options.clients)

    def open_http(self, host: str, port: int, allowed: tuple[str, ...] = ()) -> int:
        """The door to /healthz, /readyz and /metrics, without TLS; the port."""
        visitors = Visitors.of(host, allowed, token=False, anonymous_updates=False)
        measurements = Measurements()  # of this door alone; what counts is told by `_metrics`
        app = HttpApp(
            self._probes(), RequestAdmission(None), measurements, HttpLimits(body_bytes=1024), visitors
        )
        door = RestServer(app)
        self._doors.append(door)
        return door.start(host, port)

    def stop(self, seconds: float) -> None:
        """Answer what has been asked, then let go of everything."""
        for door in self._doors:
            door.stop(seconds)
        self.follower.stop()
        self._policy.close()
        if self._strangers is not None:
            self._strangers.close()

    def _bind(self, pod: tuple[str, str, str], node: str, annotations: dict[str, str]) -> None:
        self.follower.call(lambda client: client.bind(pod, node, annotations))

    # The verbs.

    def _verbs(self) -> Routes:
        takes = {JSON: _ANY_OBJECT}

        def verb(handle: Callable[[Request], HandlerReply], says: str, *, changes: bool = False) -> Route:
            answer = ResponseSpec("As kube-scheduler's extender/v1 has it.", {JSON: _ANY_OBJECT})
            return Route(handle, says, answer, takes=takes, blocking=True, changes=changes)

        return {
            "/filter": {"POST": verb(self._filter, "Take away nodes that may not take a pod.")},
            "/prioritize": {"POST": verb(self._prioritize, "How much the policy likes each node.")},
            "/preempt": {"POST": verb(self._preempt, "Leave out nodes on which evictions do not help.")},
            "/bind": {"POST": verb(self._bound, "Give a pod its node.", changes=True)},
            **self._probes(),
        }

    def _filter(self, request: Request) -> HandlerReply:
        with self._timed("filter") as call:
            result = self.extender.filter(read_args(request.body))
            call.result = "refused" if result.FailedNodes or result.FailedAndUnresolvableNodes else "all"
            return HandlerReply(encode(result))

    def _prioritize(self, request: Request) -> HandlerReply:
        with self._timed("prioritize") as call:
            scored = self.extender.prioritize(read_args(request.body))
            call.result = scored.neutral.partition(":")[0] or "policy"
            return HandlerReply(encode(scored.priorities))

    def _preempt(self, request: Request) -> HandlerReply:
        with self._timed("preempt") as call:
            call.result = "done"
            return HandlerReply(encode(self.extender.preempt(read_preemption(request.body))))

    def _bound(self, request: Request) -> HandlerReply:
        with self._timed("bind") as call:
            result = self.extender.bind(read_binding(request.body))
            call.result = "refused" if result.Error else "bound"
            return HandlerReply(encode(result))

    def _timed(self, verb: str) -> _Call:
        return _Call(self.measurements, verb)

    # Probes.

    def _probes(self) -> Routes:
        says = ResponseSpec("Whether it does.", {JSON: ExtenderHealth})
        metrics = ResponseSpec("Prometheus' text format.", {"text/plain": _TEXT})
        return {
            "/healthz": {"GET": Route(self._health, "Whether it answers.", says, open=True)},
            "/readyz": {"GET": Route(self._ready, "Whether it knows the cluster.", says, open=True)},
            "/metrics": {"GET": Route(self._metrics, "What was counted.", metrics)},
        }

    def _health(self, request: Request) -> HandlerReply:
        del request
        trouble = self.follower.trouble
        return HandlerReply(encode(ExtenderHealth("degraded" if trouble else "ok", trouble)))

    def _ready(self, request: Request) -> HandlerReply:
        del request
        if self.follower.synced:
            return HandlerReply(encode(ExtenderHealth("ok")))
        waits = ExtenderHealth("waiting", self.follower.trouble or "the cluster is being listed")
        return HandlerReply(encode(waits), status=503)

    def _metrics(self, request: Request) -> HandlerReply:
        del request
        headers = ((b"content-type", CONTENT_TYPE_LATEST.encode()),)
        return HandlerReply(self.measurements.exposition(), headers=headers)


class _Call:
    """One call: counted by what came of it, its time taken, what cannot be read refused."""

    def __init__(self, measurements: Measurements, verb: str) -> None:
        self._measurements, self._verb, self.result = measurements, verb, "unreadable"
        self._began = time.perf_counter()

    def __enter__(self) -> _Call:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._measurements.count("proreus_extender_calls", verb=self._verb, result=self.result)
        self._measurements.took("extender", self._verb, time.perf_counter() - self._began)
        if isinstance(error, msgspec.ValidationError | msgspec.DecodeError | InputError):
            raise Refused(Refusal.INVALID, str(error), "body") from error
