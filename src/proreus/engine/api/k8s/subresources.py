"""Parts of objects over HTTP: scale, binding, eviction, logs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from proreus.engine.api.k8s.patch import PATCH_TYPES
from proreus.engine.api.k8s.paths import RequestTarget
from proreus.engine.api.log_options import read_log_options
from proreus.engine.api.pod_lookup import container_of, node_of
from proreus.engine.api.server.concurrency_limit import Seats
from proreus.engine.api.server.reply import Answer, Reply, Stream
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.server.status import done
from proreus.engine.objects.errors import BadRequest, Cause, Conflict, Invalid
from proreus.engine.objects.kinds import POD, Kind
from proreus.engine.objects.patch.json_patch import json_patched
from proreus.engine.objects.patch.merge_patch import merge_patched
from proreus.engine.objects.patch.patch_type import PatchType
from proreus.engine.objects.registry import Registry
from proreus.engine.runtimes.protocol import LogWanted, PodLogs, RuntimeRefused

_MOST_REPLICAS = 2**31 - 1


class Subresources:
    """What is done to parts of objects."""

    def __init__(self, registry: Registry, logs: PodLogs | None, followers: Seats) -> None:
        """followers: for those who read a log."""
        self._registry, self._logs, self._followers = registry, logs, followers

    async def scale(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """How many replicas: read, replaced or patched."""
        kind = target.kind
        if asked.method == "GET":
            return Reply.of(scale_of(kind, await self._registry.get(kind, target.namespace, target.name)))
        if asked.method == "PATCH":
            patch = await asked.document(*PATCH_TYPES)
        else:
            patch = await asked.document()
        is_list = asked.content_type == PatchType.JSON.value

        def change(standing: dict[str, Any]) -> dict[str, Any]:
            before = scale_of(kind, standing)
            after = json_patched(before, patch) if is_list else merge_patched(before, patch)
            _check_version(kind, standing, after)
            replicas = _replicas(kind, target.name, after)
            return {**standing, "spec": {**standing["spec"], "replicas": replicas}}

        state = await self._registry.edit(
            kind,
            target.namespace,
            target.name,
            change,
            dry_run=asked.dry_run,
            manager=asked.manager,
            size=asked.size,
        )
        return Reply.of(scale_of(kind, state))

    async def binding(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """A pod goes to a node; the name stands in the path or in the body."""
        body = await asked.document()
        metadata, node = _object(body, "metadata"), _object(body, "target")
        name = target.name or metadata.get("name")
        if not isinstance(name, str) or not name:
            raise BadRequest("metadata.name: Required value")
        if metadata.get("name") not in (None, name):
            raise BadRequest("the name in the body is not the name on the URL")
        if metadata.get("namespace") not in (None, "", target.namespace):
            raise BadRequest("the namespace in the body is not the namespace on the URL")
        if node.get("kind") not in (None, "", "Node"):
            raise BadRequest('target.kind: Unsupported value: supported values: "Node"')
        if not isinstance(node.get("name"), str) or not node["name"]:
            raise BadRequest("target.name: Required value")
        uid = metadata.get("uid") or ""
        if not isinstance(uid, str):
            raise BadRequest("metadata.uid is not a string")
        annotations = metadata.get("annotations") or {}
        if not isinstance(annotations, dict) or not all(
            isinstance(annotation, str) for annotation in annotations.values()
        ):
            raise BadRequest("metadata.annotations is not a map of strings")
        if not asked.dry_run:
            await self._registry.bind(target.namespace, name, node["name"], uid=uid, annotations=annotations)
        return Reply.of(done(201), 201)

    async def eviction(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """A pod is asked to go, as far as its disruption budget allows."""
        body = await asked.document()
        options = _object(body, "deleteOptions")
        grace = options.get("gracePeriodSeconds")
        if grace is not None and (type(grace) is not int or not 0 <= grace < 2**53):
            raise BadRequest("deleteOptions.gracePeriodSeconds is not a whole number of 0 or more")
        uid = _object(options, "preconditions").get("uid") or ""
        if not isinstance(uid, str):
            raise BadRequest("deleteOptions.preconditions.uid is not a string")
        dry_run = asked.dry_run or options.get("dryRun") == ["All"]
        await self._registry.evict(target.namespace, target.name, grace, uid=uid, dry_run=dry_run)
        return Reply.of(done(201), 201)

    async def log(self, target: RequestTarget, asked: ApiRequest) -> Answer:
        """What a container has written."""
        if self._logs is None:
            raise BadRequest("no runtime of this engine keeps logs")
        options = read_log_options(target.name, asked)
        pod = await self._registry.get(POD, target.namespace, target.name)
        node_of(pod)
        wanted = replace(options, container=container_of(pod, options.container))
        self._followers.check(asked.client)
        lines = _lines(self._logs, pod["metadata"]["uid"], wanted)
        return Stream(self._seated(asked.client, lines), b"text/plain; charset=utf-8", may_refuse=True)

    async def _seated(self, client: str, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        with self._followers.seated(client):
            async with aclosing(lines):
                async for line in lines:
                    yield line


async def _lines(logs: PodLogs, uid: str, wanted: LogWanted) -> AsyncGenerator[bytes, None]:
    left = wanted.limit_bytes
    try:
        async for line in logs.logs(uid, wanted):
            if left is not None:
                line = line[:left]
                left -= len(line)
            yield line
            if left == 0:
                return
    except RuntimeRefused as refused:
        raise BadRequest(str(refused)) from refused


def scale_of(kind: Kind, obj: Mapping[str, Any]) -> dict[str, Any]:
    """The Scale of whatever has replicas."""
    metadata, spec, status = obj["metadata"], obj["spec"], obj.get("status", {})
    kept = {
        key: metadata[key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {"replicas": spec.get("replicas", 1)},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": _selector_text(spec.get("selector") or {}),
        },
    }


def _selector_text(selector: Mapping[str, Any]) -> str:
    parts = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for match_expression in selector.get("matchExpressions", ()):
        key, values = match_expression["key"], ",".join(match_expression.get("values", ()))
        match match_expression["operator"]:
            case "In":
                parts.append(f"{key} in ({values})")
            case "NotIn":
                parts.append(f"{key} notin ({values})")
            case "Exists":
                parts.append(key)
            case _:
                parts.append(f"!{key}")
    return ",".join(parts)


def _replicas(kind: Kind, name: str, scale: Any) -> int:
    replicas = _object(scale, "spec").get("replicas", 0)
    if type(replicas) is not int or not 0 <= replicas <= _MOST_REPLICAS:
        cause = Cause("spec.replicas", f"Invalid value: {replicas!r:.80}: must be greater than or equal to 0")
        raise Invalid(
            f'Scale.autoscaling "{name}" is invalid: {cause.field}: {cause.message}',
            kind=kind.resource,
            name=name,
            causes=(cause,),
        )
    return replicas


def _check_version(kind: Kind, standing: Mapping[str, Any], scale: Any) -> None:
    stated = _object(scale, "metadata").get("resourceVersion")
    if stated and stated != standing["metadata"]["resourceVersion"]:
        name = standing["metadata"]["name"]
        raise Conflict(
            f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been modified; '
            "please apply your changes to the latest version and try again",
            kind=kind.resource,
            name=name,
        )


def _object(of: Any, name: str) -> dict[str, Any]:
    """A field that is an object; an empty one where it is missing."""
    if not isinstance(of, dict):
        raise BadRequest("the body of the request is not an object")
    value = of.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest(f"{name} is not an object")
    return value
