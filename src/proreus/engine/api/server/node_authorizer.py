"""Which Secrets a node's agent may read: those that pods there use, as by Kubernetes' node authorizer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from proreus.engine.api.server.authentication import Identity, Role
from proreus.engine.api.server.authorization import Action
from proreus.engine.objects.kinds import POD, SECRET
from proreus.engine.objects.registry import Registry

NODE_USER = "system:node:"
"""An agent whose name begins so, as kubelets' do, is the agent of the node that the rest of it names."""
_ENDED = ("Succeeded", "Failed")


async def uses(registry: Registry, identity: Identity, action: Action) -> bool:
    """Whether that is the reading of one Secret by an agent, one of whose pods uses it."""
    if identity.role is not Role.AGENT or action.verb != "get" or action.resource != SECRET.resource:
        return False
    if not action.name:
        return False
    own = identity.name.removeprefix(NODE_USER) if identity.name.startswith(NODE_USER) else ""
    pods = (await registry.list(POD, action.namespace)).items
    return any(_runs_on(pod, own) and action.name in secrets_of(pod) for pod in pods)


def secrets_of(pod: Mapping[str, Any]) -> set[str]:
    """The names of the Secrets that a pod mounts, has in its environment, or pulls its images with."""
    spec = pod["spec"]
    names = {image_pull_secret.get("name") for image_pull_secret in spec.get("imagePullSecrets") or ()}
    for volume in spec.get("volumes") or ():
        names.add((volume.get("secret") or {}).get("secretName"))
        for source in (volume.get("projected") or {}).get("sources") or ():
            names.add((source.get("secret") or {}).get("name"))
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        names.update(_of_environment(container))
    return {name for name in names if name}


def _of_environment(container: Mapping[str, Any]) -> Iterator[str | None]:
    for source in container.get("envFrom") or ():
        yield (source.get("secretRef") or {}).get("name")
    for variable in container.get("env") or ():
        yield ((variable.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name")


def _runs_on(pod: Mapping[str, Any], node: str) -> bool:
    """Whether it is bound and not over; node "": to whichever."""
    bound = pod["spec"].get("nodeName")
    over = (pod.get("status") or {}).get("phase") in _ENDED
    return bool(bound) and not over and node in ("", bound)
