"""From a path under /api and /apis to whoever answers it: discovery, reviews, objects and their parts."""

from __future__ import annotations

from proreus.engine.api.exec.routes import Handler, PodStreams
from proreus.engine.api.k8s import discovery
from proreus.engine.api.k8s.access_reviews import review
from proreus.engine.api.k8s.metrics_api import MetricsObjects
from proreus.engine.api.k8s.paths import Discovery, RequestTarget, Virtual, read_path, segments
from proreus.engine.api.k8s.resources import ResourceHandlers
from proreus.engine.api.k8s.subresources import Subresources
from proreus.engine.api.server import node_authorizer
from proreus.engine.api.server.authorization import Action, check
from proreus.engine.api.server.reply import Answer, Reply
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.server.status import MethodNotAllowed
from proreus.engine.objects.errors import BadRequest, NotFound
from proreus.engine.objects.kinds import DEFINITION, MEASURED, NAMESPACE, POD
from proreus.engine.objects.registry import Registry

_AGGREGATED = "g=apidiscovery.k8s.io"


class ObjectRoutes:
    def __init__(
        self,
        registry: Registry,
        resources: ResourceHandlers,
        parts: Subresources,
        streams: PodStreams,
        metrics: MetricsObjects,
        address: str,
    ) -> None:
        self._registry, self._resources, self._parts = registry, resources, parts
        self._streams, self._metrics, self._address = streams, metrics, address

    async def answer(self, asked: ApiRequest) -> Answer:
        """Whatever is asked of it."""
        match read_path(segments(asked.path)):
            case RequestTarget() as target:
                return await self._object(target, asked)
            case Virtual() as virtual:
                return await self._virtual(virtual, asked)
            case Discovery() as wanted:
                if asked.method not in ("GET", "HEAD"):
                    raise MethodNotAllowed(f"{asked.method} is not allowed here")
                asked.doing = "get"
                return self._discover(wanted, asked)

    def _discover(self, wanted: Discovery, asked: ApiRequest) -> Reply:
        if not wanted.version and wanted.group is None:
            for offer in asked.accept.decode("latin-1").lower().replace(" ", "").split(","):
                if _AGGREGATED in offer and "as=apigroupdiscoverylist" in offer:
                    version = next(
                        (wanted for wanted in ("v2beta1", "v2") if f"v={wanted}" in offer.split(";")), ""
                    )
                    if version:
                        reply = Reply.of(discovery.aggregated(version, legacy=wanted.legacy))
                        named = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                        return Reply(reply.body, media_type=named.encode())
        return Reply.of(discovery.describe(wanted, self._address))

    async def _virtual(self, virtual: Virtual, asked: ApiRequest) -> Answer:
        if asked.method != "POST":
            raise MethodNotAllowed(f"{asked.method} is not allowed on {virtual.resource}")
        asked.doing = "create"
        check(asked.identity, Action("create", virtual.resource, virtual.namespace))
        if virtual.resource == "bindings":
            if not virtual.namespace:
                raise NotFound("the server could not find the requested resource")
            return await self._parts.binding(RequestTarget(POD, virtual.namespace), asked)
        return await review(virtual.resource, asked)

    async def _object(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        verb, handler = self._handler(target, asked)
        asked.doing = verb
        action = Action(verb, target.resource, target.namespace, target.name)
        if not await node_authorizer.uses(self._registry, asked.identity, action):
            check(asked.identity, action)
        return await handler(target, asked)

    def _handler(self, target: RequestTarget, asked: ApiRequest) -> tuple[str, Handler]:
        """The verb, and who does it."""
        if target.kind in MEASURED:
            return self._metrics_handler(target, asked)
        if target.kind is DEFINITION and asked.method != "GET":
            raise MethodNotAllowed("there are no custom resources here: definitions can only be read")
        if target.subresource:
            return self._part_handler(target, asked.method)
        resources = self._resources
        if not target.name:
            match asked.method:
                case "GET" if asked.flag("watch"):
                    return "watch", resources.watch
                case "GET":
                    return "list", resources.list
                case "POST" if target.namespace or not target.kind.namespaced:
                    return "create", resources.create
                case "POST":
                    raise BadRequest("an object is created within a namespace")
                case "DELETE" if target.namespace or not target.kind.namespaced:
                    return "deletecollection", resources.delete_all
        else:
            match asked.method:
                case "GET" if asked.flag("watch"):
                    return "watch", resources.watch
                case "GET":
                    return "get", resources.get
                case "PUT":
                    return "update", resources.replace
                case "PATCH":
                    return "patch", resources.patch
                case "DELETE":
                    return "delete", resources.delete
        raise MethodNotAllowed(f"the server does not allow {asked.method} on {target.resource}")

    def _metrics_handler(self, target: RequestTarget, asked: ApiRequest) -> tuple[str, Handler]:
        if target.subresource:
            raise NotFound("the server could not find the requested resource")
        if asked.method != "GET" or asked.flag("watch"):
            raise MethodNotAllowed(f"{target.resource} can be read and listed only")
        return ("get", self._metrics.get) if target.name else ("list", self._metrics.list)

    def _part_handler(self, target: RequestTarget, method: str) -> tuple[str, Handler]:
        kind, parts, resources = target.kind, self._parts, self._resources
        match target.subresource, method:
            case "status", "GET" if kind.status:
                return "get", resources.get
            case "status", "PUT" if kind.status:
                return "update", resources.replace
            case "status", "PATCH" if kind.status:
                return "patch", resources.patch
            case "scale", "GET" if kind.scale:
                return "get", parts.scale
            case "scale", "PUT" if kind.scale:
                return "update", parts.scale
            case "scale", "PATCH" if kind.scale:
                return "patch", parts.scale
            case "finalize", "PUT" if kind is NAMESPACE:
                return "update", resources.replace
            case "binding", "POST" if kind is POD:
                return "create", parts.binding
            case "eviction", "POST" if kind is POD:
                return "create", parts.eviction
            case "log", "GET" if kind is POD:
                return "get", self._streams.where_it_runs(parts.log)
            # Whoever may look at pods may not therefore run something in them, even where it is asked by GET.
            case "exec", "GET" | "POST" if kind is POD:
                return "create", self._streams.where_it_runs(self._streams.exec)
            case "attach", "GET" | "POST" if kind is POD:
                return "create", self._streams.where_it_runs(self._streams.attach)
            case "portforward", "GET" | "POST" if kind is POD:
                return "create", self._streams.where_it_runs(self._streams.portforward)
            case (("binding" | "eviction" | "log" | "exec" | "attach" | "portforward"), _) if kind is POD:
                raise MethodNotAllowed(f"the server does not allow {method} on {target.resource}")
            case (("status" | "scale"), _) if kind.status:
                raise MethodNotAllowed(f"the server does not allow {method} on {target.resource}")
            case _:
                raise NotFound("the server could not find the requested resource")
