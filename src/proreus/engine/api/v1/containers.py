"""Containers under /v1: listed, made, stopped, started and deleted, each by namespace, pod and name.

A container is part of a pod: one that is made here has a pod of its own, of the same name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec

from proreus.engine.api.k8s.paths import RequestTarget
from proreus.engine.api.server.reply import Answer, Reply
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.api.server.status import MethodNotAllowed
from proreus.engine.objects.container_commands import stopped, with_restart, with_start, with_stop
from proreus.engine.objects.errors import BadRequest, Conflict, NotFound
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.metadata import Object
from proreus.engine.objects.offload import LoopPauses
from proreus.engine.objects.registry import Registry

Logs = Callable[[RequestTarget, ApiRequest], Awaitable[Answer]]
_Text = Annotated[str, msgspec.Meta(max_length=65_536)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")]
_CHANGES = {"start": with_start, "stop": with_stop, "restart": with_restart}
_ENDED = ("Succeeded", "Failed")
_MOST = 4096
_PORTION_BYTES = 2 * 1024 * 1024


class _Wanted(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: _Name
    image: Annotated[str, msgspec.Meta(min_length=1, max_length=512)]
    namespace: _Name = "default"
    command: Annotated[list[_Text], msgspec.Meta(max_length=_MOST)] = []
    args: Annotated[list[_Text], msgspec.Meta(max_length=_MOST)] = []
    env: dict[_Text, _Text] = {}
    limits: dict[_Text, str | int | float] = {}
    """Resources, which are what it asks for, too."""
    restart: Literal["Always", "OnFailure", "Never"] = "Always"
    scheduler: _Text = ""


class ContainerRoutes:
    def __init__(self, registry: Registry, logs: Logs) -> None:
        """logs: answers for the log of a pod's container, wherever that runs."""
        self._registry, self._logs = registry, logs

    async def answer(self, path: Sequence[str], verb: str, asked: ApiRequest) -> Answer:
        """Whatever is asked below /v1/containers."""
        match path, verb:
            case [], "get":
                return Reply.of({"containers": await self._listed(asked)})
            case [], "create":
                return await self._create(asked)
            case [namespace, pod, name], "get":
                return Reply.of(as_json(await self._pod(namespace, pod, name), name))
            case [namespace, pod, name], "delete":
                return await self._delete(namespace, pod, name)
            case [namespace, pod, name, "logs"], "get":
                await self._pod(namespace, pod, name)
                asked.query["container"] = name
                return await self._logs(RequestTarget(POD, namespace, pod, "log"), asked)
            case [namespace, pod, name, ("start" | "stop" | "restart") as change], "create":
                return await self._change(change, namespace, pod, name)
            case [] | [_, _, _] | [_, _, _, ("logs" | "start" | "stop" | "restart")], _:
                raise MethodNotAllowed(f"{asked.method} is not allowed here")
            case _:
                raise NotFound("the server could not find the requested resource")

    async def _listed(self, asked: ApiRequest) -> list[dict[str, Any]]:
        """A portion of the pods at a time: others have their turn in between."""
        namespace, node = asked.query.get("namespace", ""), asked.query.get("node", "")
        containers: list[dict[str, Any]] = []
        after, revision, pauses = "", 0, LoopPauses()
        while True:
            listed = await self._registry.list(
                POD, namespace, after=after, revision=revision, most_bytes=_PORTION_BYTES
            )
            for pod in listed.items:
                if not node or pod["spec"].get("nodeName") == node:
                    names = [str(container["name"]) for container in pod["spec"]["containers"]]
                    containers += [as_json(pod, name) for name in names]
                if pauses.due:
                    await pauses.take()
            after, revision = listed.after, listed.revision
            if not after:
                return containers

    async def _pod(self, namespace: str, pod: str, name: str) -> Object:
        found = await self._registry.get(POD, namespace, pod)
        if name not in [container["name"] for container in found["spec"]["containers"]]:
            raise NotFound(f"pod {pod[:80]} has no container {name[:80]!r}")
        return found

    async def _create(self, asked: ApiRequest) -> Answer:
        try:
            wanted = msgspec.convert(await asked.document(), _Wanted)
        except msgspec.ValidationError as error:
            raise BadRequest(f"a container is {{name, image, command, ...}}: {error}") from None
        created = await self._registry.create(POD, _as_pod(wanted), dry_run=asked.dry_run)
        return Reply.of(as_json(created, wanted.name), 201)

    async def _change(self, change: str, namespace: str, pod: str, name: str) -> Answer:
        await self._pod(namespace, pod, name)

        def changed(standing: Object) -> Object:
            phase = (standing.get("status") or {}).get("phase", "")
            if phase in _ENDED:
                raise Conflict(f"pod {pod} has ended ({phase}): none of its containers can {change}")
            return _CHANGES[change](standing, name)

        return Reply.of(as_json(await self._registry.edit(POD, namespace, pod, changed), name))

    async def _delete(self, namespace: str, pod: str, name: str) -> Answer:
        found = await self._pod(namespace, pod, name)
        others = [container["name"] for container in found["spec"]["containers"] if container["name"] != name]
        if others:
            raise Conflict(
                f"{name} shares pod {pod} with {', '.join(others)}: stop it, or delete the pod with them all"
            )
        await self._registry.delete(POD, namespace, pod)
        return Reply.of({"id": f"{namespace}/{pod}/{name}"})


def as_json(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A container as this API tells of it."""
    spec = next(container for container in pod["spec"]["containers"] if container["name"] == name)
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    status: Mapping[str, Any] = next((status for status in statuses if status.get("name") == name), {})
    state, details = next(iter((status.get("state") or {"waiting": {}}).items()))
    if name in stopped(pod) and state != "running":
        state = "stopped"
    namespace, of = pod["metadata"]["namespace"], pod["metadata"]["name"]
    return {
        "id": f"{namespace}/{of}/{name}",
        "namespace": namespace,
        "pod": of,
        "name": name,
        "image": str(spec.get("image") or ""),
        "node": str(pod["spec"].get("nodeName") or ""),
        "state": state,
        "reason": str(details.get("reason") or ""),
        "ready": bool(status.get("ready")),
        "restarts": int(status.get("restartCount") or 0),
        "started": str(details.get("startedAt") or ""),
        "exit_code": details.get("exitCode"),
    }


def _as_pod(wanted: _Wanted) -> dict[str, Any]:
    container: dict[str, Any] = {"name": wanted.name, "image": wanted.image}
    stated = {
        "command": wanted.command,
        "args": wanted.args,
        "env": [{"name": name, "value": value} for name, value in wanted.env.items()],
        "resources": {"limits": wanted.limits} if wanted.limits else {},
    }
    container |= {field: value for field, value in stated.items() if value}
    spec: dict[str, Any] = {"containers": [container], "restartPolicy": wanted.restart}
    if wanted.scheduler:
        spec["schedulerName"] = wanted.scheduler
    return {
        "apiVersion": POD.api_version,
        "kind": POD.kind,
        "metadata": {"name": wanted.name, "namespace": wanted.namespace, "labels": {"app": wanted.name}},
        "spec": spec,
    }
