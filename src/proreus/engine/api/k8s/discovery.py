"""Discovery: which groups, versions and resources there are, in the plain and in the aggregated form."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from proreus.engine.api.k8s.paths import Discovery
from proreus.engine.objects.errors import NotFound
from proreus.engine.objects.kinds import DEFINITION, KINDS, MEASURED, POD, Kind
from proreus.engine.objects.schema.fields import kubernetes_version

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_MEASURED_VERBS = ("get", "list")
_DEFINITION_VERBS = ("get", "list", "watch")
_PART_VERBS = ("get", "patch", "update")
_STREAMS = {"attach": "PodAttachOptions", "exec": "PodExecOptions", "portforward": "PodPortForwardOptions"}
_REVIEWS = {
    "authorization.k8s.io": (
        ("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
        ("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    ),
    "authentication.k8s.io": (("selfsubjectreviews", "SelfSubjectReview"),),
}
SERVED = {
    "": ("v1",),
    **{kind.group: (kind.version,) for kind in KINDS if kind.group},
    **dict.fromkeys(_REVIEWS, ("v1",)),
    **{kind.group: (kind.version,) for kind in (*MEASURED, DEFINITION)},
}
"""The versions of each group."""


@cache
def version() -> dict[str, str]:
    """The Kubernetes whose language is spoken, for clients that look: that of the table of fields."""
    stated = kubernetes_version()
    major, minor, _ = stated.removeprefix("v").split(".")
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"{stated}+proreus",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "CPython",
        "platform": "python",
    }


def _resource(kind: Kind, verbs: tuple[str, ...] = _VERBS) -> dict[str, Any]:
    resource: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(verbs),
    }
    if kind.short:
        resource["shortNames"] = list(kind.short)
    if kind.categories:
        resource["categories"] = list(kind.categories)
    return resource


def _parts(kind: Kind) -> Iterator[dict[str, Any]]:
    def part(name: str, of: str, verbs: tuple[str, ...], **more: str) -> dict[str, Any]:
        named = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        return {**named, **more, "kind": of, "verbs": list(verbs)}

    if kind.status:
        yield part("status", kind.kind, _PART_VERBS)
    if kind.scale:
        yield part("scale", "Scale", _PART_VERBS, group="autoscaling", version="v1")
    if kind is POD:
        yield part("binding", "Binding", ("create",))
        yield part("eviction", "Eviction", ("create",), group="policy", version="v1")
        yield part("log", "Pod", ("get",))
        for name, options in _STREAMS.items():
            yield part(name, options, ("create", "get"))


@cache
def _resources(group: str) -> list[dict[str, Any]]:
    resources = [
        resource for kind in KINDS if kind.group == group for resource in (_resource(kind), *_parts(kind))
    ]
    if group == "":
        resources.append(
            {
                "name": "bindings",
                "singularName": "binding",
                "namespaced": True,
                "kind": "Binding",
                "verbs": ["create"],
            }
        )
    resources += [_resource(kind, _MEASURED_VERBS) for kind in MEASURED if kind.group == group]
    if group == DEFINITION.group:
        resources.append(_resource(DEFINITION, _DEFINITION_VERBS))
    resources += [
        {"name": name, "singularName": kind.lower(), "namespaced": False, "kind": kind, "verbs": ["create"]}
        for name, kind in _REVIEWS.get(group, ())
    ]
    return sorted(resources, key=lambda resource: str(resource["name"]))


def _group(group: str) -> dict[str, Any]:
    versions = [{"groupVersion": f"{group}/{version}", "version": version} for version in SERVED[group]]
    return {"name": group, "versions": versions, "preferredVersion": versions[0]}


def describe(asked: Discovery, address: str) -> dict[str, Any]:
    """The plain form; address: where the server is reached, "127.0.0.1:8443"."""
    if asked.version:
        if asked.version not in SERVED.get(asked.group or "", ()) or (asked.legacy != (not asked.group)):
            raise NotFound("the server could not find the requested resource")
        group = asked.group or ""
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{asked.version}" if group else asked.version,
            "resources": _resources(group),
        }
    if asked.legacy:
        where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
        return {
            "kind": "APIVersions",
            "apiVersion": "v1",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": where,
        }
    if asked.group is None:
        groups = [_group(group) for group in SERVED if group]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
    if not asked.group or asked.group not in SERVED:
        raise NotFound("the server could not find the requested resource")
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(asked.group)}


@cache
def aggregated(version: str, *, legacy: bool) -> dict[str, Any]:
    """Everything under /api or /apis in one document; version: of the form itself, v2 or v2beta1."""
    groups = [group for group in SERVED if (not group) == legacy]
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{version}",
        "metadata": {},
        "items": [_aggregated_group(group) for group in groups],
    }


def _aggregated_group(group: str) -> dict[str, Any]:
    return {
        "metadata": {"name": group} if group else {},
        "versions": [
            {"version": version, "resources": _aggregated_resources(group, version), "freshness": "Current"}
            for version in SERVED[group]
        ],
    }


def _aggregated_resources(group: str, version: str) -> list[dict[str, Any]]:
    whole: dict[str, dict[str, Any]] = {}
    for resource in _resources(group):
        plural, _, part = resource["name"].partition("/")
        kind = {
            "group": resource.get("group", group),
            "version": resource.get("version", version),
            "kind": resource["kind"],
        }
        if part:
            subresource = {"subresource": part, "responseKind": kind, "verbs": resource["verbs"]}
            whole[plural].setdefault("subresources", []).append(subresource)
            continue
        whole[plural] = {
            "resource": plural,
            "responseKind": kind,
            "scope": "Namespaced" if resource["namespaced"] else "Cluster",
            "singularResource": resource["singularName"],
            "verbs": resource["verbs"],
        }
        for name in ("shortNames", "categories"):
            if name in resource:
                whole[plural][name] = resource[name]
    return list(whole.values())
