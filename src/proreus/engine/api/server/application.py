"""The whole of the API as one ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial

from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Lifespan

from proreus.engine.api.exec.routes import PodStreams
from proreus.engine.api.k8s.discovery import version
from proreus.engine.api.k8s.metrics_api import MetricsObjects
from proreus.engine.api.k8s.resources import ResourceHandlers
from proreus.engine.api.k8s.routes import ObjectRoutes
from proreus.engine.api.k8s.schemas.openapi import groups_3, index_3, version_2, version_3
from proreus.engine.api.k8s.schemas.openapi_protobuf import encode_document
from proreus.engine.api.k8s.subresources import Subresources
from proreus.engine.api.k8s.watch import Watches
from proreus.engine.api.server.audit import AuditLog
from proreus.engine.api.server.authentication import Authenticator
from proreus.engine.api.server.authorization import Action, check
from proreus.engine.api.server.concurrency_limit import Seats
from proreus.engine.api.server.health import HealthChecks
from proreus.engine.api.server.loop_watchdog import Watchdog
from proreus.engine.api.server.middleware import Endpoint, GatedRequest, Middleware
from proreus.engine.api.server.node_proxy import NodeRelay
from proreus.engine.api.server.options import ApiOptions
from proreus.engine.api.server.pages import page_answers, page_files
from proreus.engine.api.server.reply import Answer, Reply
from proreus.engine.api.server.request import ApiRequest, Receive, Scope, Send
from proreus.engine.api.server.status import MethodNotAllowed
from proreus.engine.api.usage import MeasuredUsage
from proreus.engine.api.v1.overview import Overview
from proreus.engine.api.v1.routes import V1Defaults, V1Routes
from proreus.engine.api.v1.schedulers import check_written
from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.runtimes.protocol import NodeImages, PodExec, PodLogs
from proreus.engine.runtimes.stats import Trends
from proreus.httpserver.pages import ANSWERS, Pages
from proreus.policies.policy_folders import PolicyFolders

_PROTOBUF = b"application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
_OPENAPI_2 = "proto-openapi.spec.v2"
_OBJECTS = ("/api/", "/apis/")


@dataclass(frozen=True)
class ApiDependencies:
    """What the door asks besides the registry."""

    logs: PodLogs | None = None
    commands: PodExec | None = None
    images: NodeImages | None = None
    relay: NodeRelay | None = None
    """Asks other processes about what runs on their nodes."""
    schedulers: Mapping[str, Chosen] = field(default_factory=dict)
    """Who decides for whom where nobody has chosen."""
    refused: Callable[[], Mapping[str, str]] = dict
    """What is wrong with choices of schedulers that are not in effect."""
    failing: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    """What was wrong with the last answers of their policies and shadows."""
    trends: Trends | None = None
    """Remembers what nodes and pods used."""
    folders: PolicyFolders = field(default_factory=PolicyFolders)
    """Where policies may lie that clients name by their path."""
    simulated: bool = False
    """Whether the nodes of this process are."""
    pages: Pages | None = None
    """A dashboard: its files are for anybody, its answers for whoever may read."""


def create_app(
    registry: Registry, options: ApiOptions, surroundings: ApiDependencies | None = None
) -> Starlette:
    """The API over a registry that is prepared; feeds and the audit log end with its lifespan."""
    around = surroundings or ApiDependencies()
    limits = options.limits
    audit = (
        None
        if options.audit is None
        else AuditLog(options.audit, most_bytes=options.audit_bytes, files=options.audit_files)
    )
    gate = Middleware(Authenticator.of(options.tokens), options.names, limits, audit)
    watches = Watches(registry, limits)
    measured = MeasuredUsage(registry)
    followers = Seats(limits.followers, limits.followers_per_client, "too many follow logs already")
    parts = Subresources(registry, around.logs, followers)
    streams = PodStreams(registry, around.commands, limits, around.relay, followers)
    objects = ObjectRoutes(
        registry,
        ResourceHandlers(
            registry,
            watches,
            partial(check_written, folders=around.folders),
            simulated=around.simulated,
        ),
        parts,
        streams,
        MetricsObjects(measured),
        f"{options.host}:{options.port}",
    )

    health = HealthChecks(registry)
    overview, watchdog = Overview(registry), Watchdog()
    plain = V1Routes(
        registry,
        overview,
        gate.counts,
        watches,
        watchdog,
        V1Defaults(
            around.commands,
            around.images,
            streams.where_it_runs(parts.log),
            around.relay,
            around.schedulers,
            around.refused,
            around.failing,
            around.trends,
            around.folders,
        ),
    )

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None, None]:
        watching = asyncio.create_task(watchdog.run(), name="the watchdog of the loop")
        yield
        watching.cancel()
        await watches.stop()
        await plain.stop()
        await health.stop()
        if audit is not None:
            audit.close()

    def reading(endpoint: Endpoint) -> Endpoint:
        async def checked(asked: ApiRequest) -> Answer:
            if asked.method not in ("GET", "HEAD"):
                raise MethodNotAllowed(f"{asked.method} is not allowed here")
            asked.doing = "get"
            check(asked.identity, Action("get", "/" + asked.path.decode("latin-1").strip("/")))
            return await endpoint(asked)

        return checked

    async def version_told(_: ApiRequest) -> Answer:
        return Reply.of(version())

    async def elsewhere(_: ApiRequest) -> Answer:
        raise NotFound("the server could not find the requested resource")

    pages: list[BaseRoute] = []
    if around.pages is not None:
        files = gate.before(page_files(around.pages, gate.around(elsewhere)))
        pages = [
            Mount(ANSWERS.rstrip("/"), app=gate.around(page_answers(around.pages))),
            Mount("/", app=files),
        ]
    routes: list[BaseRoute] = [
        *(Route(path, gate.around(objects.answer)) for path in ("/api", "/apis")),
        # The official Python client asks with the slash.
        *(Route(path, gate.around(reading(version_told))) for path in ("/version", "/version/")),
        Route("/healthz", gate.around(reading(health.alive))),
        Route("/livez", gate.around(reading(health.alive))),
        Route("/readyz", gate.around(reading(health.ready))),
        Mount("/openapi", app=gate.around(reading(_openapi))),
        Mount("/v1", app=gate.around(plain.answer)),
        *pages,
        Mount("/", app=gate.around(elsewhere)),
    ]
    app = _ObjectsFirst(gate.around(objects.answer), routes=routes, lifespan=lifespan)
    # The lifespan ends when all requests have: a stream that waited for that would never end by itself.
    app.state.end_streams = watches.close
    return app


class _ObjectsFirst(Starlette):
    """Requests about objects go straight to the gate, which answers whatever happens behind it: nearly all
    are, and the way through the routes takes as long as the gate's own checks."""

    def __init__(
        self, objects: GatedRequest, routes: Sequence[BaseRoute], lifespan: Lifespan[Starlette]
    ) -> None:
        super().__init__(routes=routes, lifespan=lifespan)
        self._objects = objects

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, or the lifespan."""
        if scope["type"] == "http" and scope["path"].startswith(_OBJECTS):
            await self._objects(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


async def _openapi(asked: ApiRequest) -> Answer:
    """The documents of the objects' API."""
    path = asked.path.decode("latin-1").strip("/").removeprefix("openapi/")
    document = _document(path, _OPENAPI_2 in asked.accept.decode("latin-1"))
    if document is None:
        raise NotFound("the server could not find the requested resource")
    return document


@lru_cache(maxsize=64)
def _document(path: str, as_protobuf: bool) -> Reply | None:
    """Written once: they are long, and everybody asks for them."""
    if path == "v2":
        if as_protobuf:
            return Reply(encode_document(version_2()), media_type=_PROTOBUF)
        return Reply.of(version_2())
    if path == "v3":
        return Reply.of(index_3())
    group = path.removeprefix("v3/")
    return Reply.of(version_3(group)) if path.startswith("v3/") and group in groups_3() else None
