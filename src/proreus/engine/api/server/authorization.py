"""What each role may do: an admin everything, a viewer read all but Secrets, an agent what agents need."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from types import MappingProxyType
from typing import assert_never

from proreus.engine.api.server.authentication import Identity, Role
from proreus.engine.objects.errors import Forbidden
from proreus.engine.objects.kinds import DEFINITION, KINDS, MEASURED, SECRET

READ = frozenset({"get", "list", "watch"})
CHANGE = frozenset({"create", "update", "patch"})
REMOVE = frozenset({"delete"})

_VIEWED = frozenset(kind.resource for kind in (*KINDS, *MEASURED, DEFINITION) if kind is not SECRET) | {
    "pods/log"
}

_AGENT_WRITES = MappingProxyType(
    {
        # Resource agents: their node, its heartbeat, and what has become of its pods.
        "nodes": CHANGE,
        "nodes/status": CHANGE,
        "leases.coordination.k8s.io": CHANGE | REMOVE,
        "pods/status": CHANGE,
        "events": CHANGE | REMOVE,
        # Scheduling agents.
        "pods/binding": CHANGE,
        "bindings": CHANGE,
        "pods/eviction": CHANGE,
        # Task agents.
        "pods": CHANGE | REMOVE,
        "deployments.apps": frozenset({"update", "patch"}),
        "deployments.apps/status": CHANGE,
        "replicasets.apps": CHANGE | REMOVE,
        "replicasets.apps/status": CHANGE,
        "jobs.batch": frozenset({"update", "patch", "delete"}),
        "jobs.batch/status": CHANGE,
        "poddisruptionbudgets.policy/status": CHANGE,
        "namespaces/status": CHANGE,
    }
)


@dataclass(frozen=True, slots=True)
class Action:
    """What somebody wants to do."""

    verb: str
    """In Kubernetes' words: get, list, watch, create, update, patch, delete, deletecollection."""
    resource: str
    """ "pods", "deployments.apps", "pods/log"; a path where it is none of the kinds ("/v1/schedulers")."""
    namespace: str = ""
    name: str = ""


def allowed(role: Role, action: Action) -> bool:
    """Whether the role may do it."""
    match role:
        case Role.ADMIN:
            return True
        case Role.AGENT:
            reads = action.verb in READ and action.resource in _VIEWED
            return reads or action.verb in _AGENT_WRITES.get(action.resource, ()) or _is_open(action)
        case Role.VIEWER:
            return (action.verb in READ and action.resource in _VIEWED) or _is_open(action)
        case _:
            assert_never(role)


def _is_open(action: Action) -> bool:
    """Whether everybody with a token may do it: reading what is no object, and asking about oneself."""
    if action.resource.startswith("/"):
        return action.verb == "get"
    group = action.resource.partition(".")[2]
    return group in ("authorization.k8s.io", "authentication.k8s.io") and action.verb == "create"


def check(identity: Identity, action: Action) -> None:
    """Refuse in Kubernetes' words what the role may not do."""
    if allowed(identity.role, action):
        return
    plural, _, subresource = action.resource.partition("/")
    if not plural:
        raise Forbidden(f'forbidden: User "{identity.name}" cannot {action.verb} path "{action.resource}"')
    resource, _, group = plural.partition(".")
    where = f' in the namespace "{action.namespace}"' if action.namespace else " at the cluster scope"
    named = f' "{action.name}"' if action.name else ""
    shown = f"{resource}/{subresource}" if subresource else resource
    raise Forbidden(
        f'{plural}{named} is forbidden: User "{identity.name}" with the role {identity.role.value} cannot '
        f'{action.verb} resource "{shown}" in API group "{group}"{where}',
        kind=plural,
        name=action.name,
    )


def rules(role: Role) -> Iterator[tuple[list[str], str, list[str]]]:
    """Verbs, group and resources, for `kubectl auth can-i --list`."""
    if role is Role.ADMIN:
        yield ["*"], "*", ["*"]
        return
    granted: dict[tuple[str, str], set[str]] = {}
    for resource in sorted(_VIEWED):
        granted.setdefault(_split(resource), set()).update(READ)
    if role is Role.AGENT:
        for resource, verbs in _AGENT_WRITES.items():
            granted.setdefault(_split(resource), set()).update(verbs)
    for (group, resource), granted_verbs in sorted(granted.items()):
        yield sorted(granted_verbs), group, [resource]


def _split(resource: str) -> tuple[str, str]:
    plural, slash, subresource = resource.partition("/")
    name, _, group = plural.partition(".")
    return group, f"{name}{slash}{subresource}"
