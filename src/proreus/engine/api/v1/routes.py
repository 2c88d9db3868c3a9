"""The routes under /v1."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec

from proreus.engine.api.k8s.paths import RequestTarget, segments
from proreus.engine.api.k8s.watch import Watches
from proreus.engine.api.pod_lookup import container_of, node_of
from proreus.engine.api.server.authorization import Action, check
from proreus.engine.api.server.concurrency_limit import Seats
from proreus.engine.api.server.loop_watchdog import Watchdog
from proreus.engine.api.server.middleware import Counts
from proreus.engine.api.server.node_proxy import NodeRelay
from proreus.engine.api.server.reply import Answer, Reply, Stream, encode
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.server.status import MethodNotAllowed
from proreus.engine.api.usage import MeasuredUsage
from proreus.engine.api.v1 import metrics, schedulers
from proreus.engine.api.v1.containers import ContainerRoutes, Logs
from proreus.engine.api.v1.images import ImageRoutes
from proreus.engine.api.v1.openapi import document
from proreus.engine.api.v1.overview import Overview
from proreus.engine.api.v1.usage import UsageRoutes
from proreus.engine.objects.errors import BadRequest, NotFound
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.promotions import Promotion
from proreus.engine.objects.registry import Registry
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.runtimes.protocol import NodeImages, Pod, PodExec, RuntimeRefused
from proreus.engine.runtimes.stats import Trends
from proreus.policies.policy_folders import PolicyFolders
from proreus.version import __version__

_Word = Annotated[str, msgspec.Meta(max_length=65_536)]


class _Command(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    command: Annotated[list[_Word], msgspec.Meta(min_length=1, max_length=4096)]
    container: str = ""
    stdin: bytes = b""


async def execute(runner: PodExec | None, pod: Pod, asked: ApiRequest) -> Reply:
    """Run it in the pod; exit code and output, these as base64."""
    try:
        wanted = msgspec.convert(await asked.document(), _Command)
    except msgspec.ValidationError as error:
        raise BadRequest(f"a command is {{command, container, stdin}}: {error}") from None
    if runner is None:
        raise BadRequest("no runtime of this engine runs commands")
    container = container_of(pod, wanted.container)
    try:
        ended = await runner.execute(pod["metadata"]["uid"], container, wanted.command, wanted.stdin)
    except RuntimeRefused as refused:
        raise BadRequest(str(refused)) from refused
    return Reply.of(
        {
            "exitCode": ended.exit_code,
            "stdout": base64.b64encode(ended.stdout).decode(),
            "stderr": base64.b64encode(ended.stderr).decode(),
        }
    )


_VERBS = {"GET": "get", "HEAD": "get", "POST": "create", "PUT": "update", "DELETE": "delete"}
_MOST_FOLLOWERS, _FOLLOWERS_EACH = 64, 32
_EVERY_SECONDS = 1.0
_BEAT_SECONDS = 10.0
_DECISIONS_AT_FIRST = 100


@dataclass(frozen=True)
class V1Defaults:
    """What the process around the door knows."""

    commands: PodExec | None = None
    """Runs commands in containers."""
    images: NodeImages | None = None
    """Holds the images of this process' node."""
    logs: Logs | None = None
    """Answers for the log of a container."""
    relay: NodeRelay | None = None
    """Asks other processes about what runs on their nodes."""
    schedulers: Mapping[str, Chosen] = field(default_factory=dict)
    """Who decides for whom where nobody has chosen."""
    refused: Callable[[], Mapping[str, str]] = dict
    """What is wrong with choices that are not in effect."""
    failing: Callable[[], Mapping[str, Mapping[str, str]]] = dict
    """What was wrong with the last answers of the policy and the shadow of a scheduler."""
    trends: Trends | None = None
    """Remembers what was used."""
    folders: PolicyFolders = field(default_factory=PolicyFolders)
    """Where policies may lie that clients name by their path."""


class V1Routes:
    def __init__(
        self,
        registry: Registry,
        overview: Overview,
        counts: Counts,
        watches: Watches,
        watchdog: Watchdog,
        defaults: V1Defaults | None = None,
    ) -> None:
        self._registry, self._overview, self._counts, self._watches = registry, overview, counts, watches
        self._watchdog = watchdog
        self._defaults = defaults or V1Defaults()
        self._images = ImageRoutes(registry, self._defaults.images, self._defaults.relay)
        self._containers = ContainerRoutes(registry, self._defaults.logs or _no_logs)
        self._measured = MeasuredUsage(registry)
        self._use = UsageRoutes(registry, self._measured, self._defaults.trends)
        self._started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._followers = Seats(_MOST_FOLLOWERS, _FOLLOWERS_EACH, "too many follow the events already")

    async def stop(self) -> None:
        """Watch no more."""
        await self._overview.stop()

    async def answer(self, asked: ApiRequest) -> Answer:
        """Whatever is asked of it."""
        path = segments(asked.path)[1:]
        verb = _VERBS.get(asked.method, "")
        asked.doing = verb or asked.method.lower()
        check(asked.identity, Action(asked.doing, "/v1/" + "/".join(path)))
        match path, verb:
            case ["schedulers"], "get":
                return Reply.of({"schedulers": await self._schedulers()})
            case ["schedulers", name], "get" | "update" | "delete":
                return await self._scheduler(name, verb, asked)
            case ["policies"], "get":
                return Reply.of({"policies": _policies()})
            case ["containers", *below], _:
                return await self._containers.answer(below, verb, asked)
            case ["images", *below], _:
                return await self._images.answer(below, verb, asked)
            case ["decisions"], "get":
                return await self._decisions(asked)
            case ["metrics"], "get":
                return await self._metrics(asked)
            case ["use", "nodes"], "get":
                return Reply.of(await self._use.nodes(asked))
            case ["use", "pods"], "get":
                return Reply.of(await self._use.pods(asked))
            case ["use", "nodes" | "pods"], _:
                raise MethodNotAllowed(f"{asked.method} is not allowed here")
            case ["namespaces", namespace, "pods", name, "exec"], "create":
                return await self._execute(namespace, name, asked)
            case ["namespaces", _, "pods", _, "exec"], _:
                raise MethodNotAllowed(f"{asked.method} is not allowed here")
            case ["events"], "get":
                return await self._events(asked)
            case ["openapi.json"], "get":
                return Reply.of(document())
            case [("schedulers" | "policies" | "decisions" | "metrics" | "events" | "openapi.json")], _:
                raise MethodNotAllowed(f"{asked.method} is not allowed here")
            case _:
                raise NotFound("the server could not find the requested resource")

    async def _execute(self, namespace: str, name: str, asked: ApiRequest) -> Answer:
        pod = await self._registry.get(POD, namespace, name)
        node, relay = node_of(pod), self._defaults.relay
        if relay is not None and relay.is_elsewhere(node):
            return await relay.reply(node, asked, await asked.body())
        return await execute(self._defaults.commands, pod, asked)

    async def _scheduler(self, name: str, verb: str, asked: ApiRequest) -> Answer:
        match verb:
            case "update":
                choice = schedulers.read_choice(await asked.document())
                await schedulers.check_policies(choice, self._defaults.folders)
                if not asked.dry_run:
                    await schedulers.switch(self._registry, name, choice)
                return Reply.of(schedulers.as_json(name, choice))
            case "delete":
                await schedulers.switch(self._registry, name, None)
                return Reply.of({"name": name})
            case _:
                found = await self._chosen()
                if name not in found:
                    raise NotFound(f"nothing was chosen for the scheduler {name[:80]!r}")
                promotions = await schedulers.promotions(self._registry)
                return Reply.of(self._as_json(name, found[name], promotions))

    async def _chosen(self) -> dict[str, Chosen]:
        return {**self._defaults.schedulers, **await schedulers.chosen(self._registry)}

    async def _schedulers(self) -> list[dict[str, Any]]:
        promotions = await schedulers.promotions(self._registry)
        return [self._as_json(name, one, promotions) for name, one in (await self._chosen()).items()]

    def _as_json(self, name: str, one: Chosen, promotions: Mapping[str, Promotion]) -> dict[str, Any]:
        defaults = self._defaults
        troubles = schedulers.Troubles(defaults.refused().get(name, ""), defaults.failing().get(name) or {})
        return schedulers.as_json(name, one, troubles, promotions.get(name))

    async def _decisions(self, asked: ApiRequest) -> Reply:
        limit = asked.number("limit")
        if limit == 0:
            raise BadRequest("limit: it is a whole number of 1 or more")
        await self._overview.look()
        newest = [decision.told for decision in reversed(self._overview.decisions)]
        return Reply.of({"decisions": newest[: limit or _DECISIONS_AT_FIRST]})

    async def _metrics(self, asked: ApiRequest) -> Reply:
        await self._overview.look()
        containers = await self._measured.containers()
        families = metrics.families(
            self._counts, self._watches.open, self._watchdog, self._overview, containers
        )
        match asked.query.get("format", ""):
            case "json":
                return Reply.of(metrics.as_json(families))
            case "" | "text":
                return Reply(metrics.as_text(families), media_type=metrics.TEXT)
            case other:
                raise BadRequest(f"format: {other[:80]!r} is neither json nor text")

    async def _events(self, asked: ApiRequest) -> Stream:
        self._followers.check(asked.client)
        pods = asked.flag("pods")
        await (self._overview.look_at_nodes() if pods else self._overview.look())
        told = self._told(asked.client, pods=pods)
        return Stream(told, b"text/event-stream", may_refuse=True)

    async def _told(self, client: str, *, pods: bool) -> AsyncGenerator[bytes, None]:
        """Server-sent events: `status` and `nodes` when they change, `decisions` as they are made; where they
        are asked for, `pods` and `events` as well.

        Nothing waits for a client that is slow: it is told next what has changed by then.
        """
        overview, seen, decided, quiet, evented = self._overview, -1, -1, 0.0, 0
        with self._followers.seated(client):
            while not self._watches.closing:
                if overview.changes != seen:
                    # Taken first: what changes while a piece is being sent is told in the next round.
                    before, seen, quiet = seen, overview.changes, 0.0
                    nodes, gone = overview.nodes_since(before)
                    rows = iter(overview.pods.since(before) if pods else ())
                    portion = next(rows, None)
                    if nodes or gone or before < 0:
                        yield _event("nodes", {"all": before < 0, "nodes": nodes, "gone": gone})
                    fresh = [decision for decision in overview.decisions if decision.number > decided]
                    if fresh:
                        decided = fresh[-1].number
                        yield _event(
                            "decisions", {"decisions": [one.told for one in fresh[-_DECISIONS_AT_FIRST:]]}
                        )
                    yield _event("status", await self._status())
                    while portion is not None:
                        yield _event("pods", {"all": portion.all, "rows": portion.rows, "gone": portion.gone})
                        portion = next(rows, None)
                elif quiet >= _BEAT_SECONDS:
                    quiet = 0.0
                    yield b": still here\n\n"
                if pods and overview.events.count > evented:
                    newest, evented = overview.events.since(evented), overview.events.count
                    yield _event("events", {"events": newest})
                await asyncio.sleep(_EVERY_SECONDS)
                quiet += _EVERY_SECONDS

    async def _status(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "started": self._started,
            "synced": self._overview.synced,
            "schedulers": await self._schedulers(),
            **self._overview.summary(),
        }


async def _no_logs(target: RequestTarget, asked: ApiRequest) -> Answer:
    raise BadRequest("no runtime of this engine keeps logs")


def _event(name: str, told: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), encode(told))


def _policies() -> list[dict[str, str]]:
    # Loaded when somebody asks: the rules bring their compiled kernels with them.
    from proreus.worlds.pods.policies.catalogue import POLICIES

    return [{"name": name, "about": about} for name, about in POLICIES.describe()]
