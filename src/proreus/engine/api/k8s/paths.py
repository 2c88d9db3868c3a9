"""What a path under /api and /apis is about."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from proreus.engine.objects.errors import BadRequest, NotFound
from proreus.engine.objects.kinds import BY_RESOURCE, NAMESPACE, Kind

_LONGEST = 2048


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """One object, or all of a kind, or a part of one."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def resource(self) -> str:
        """As roles have it: "pods/log"."""
        return f"{self.kind.resource}/{self.subresource}" if self.subresource else self.kind.resource


@dataclass(frozen=True, slots=True)
class Virtual:
    """Something that can be created and is not kept: a review, a binding."""

    resource: str
    """ "bindings", "selfsubjectaccessreviews.authorization.k8s.io"."""
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Discovery:
    """A list of what there is: of versions, of groups, of a group's versions, of a version's resources."""

    group: str | None = None
    version: str = ""
    legacy: bool = False
    """Under /api, where the core group lives."""


VIRTUAL = frozenset(
    {
        ("", "v1", "bindings"),
        ("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "v1", "selfsubjectrulesreviews"),
        ("authentication.k8s.io", "v1", "selfsubjectreviews"),
    }
)


def segments(raw_path: bytes) -> list[str]:
    """The parts of a path, decoded one by one, so that an encoded slash stays within its part."""
    if len(raw_path) > _LONGEST:
        raise BadRequest(f"the path is longer than {_LONGEST} bytes")
    parts = []
    for part in raw_path.strip(b"/").split(b"/"):
        try:
            text = unquote_to_bytes(part).decode() if b"%" in part else part.decode()
        except UnicodeDecodeError:
            raise BadRequest("the path is not UTF-8") from None
        if "/" in text or "\0" in text or text in (".", ".."):
            raise BadRequest(f"invalid part of a path: {text!r}")
        parts.append(text)
    return parts


def read_path(parts: list[str]) -> RequestTarget | Virtual | Discovery:
    """Parts of /api/... or /apis/...; NotFound where there is no such thing."""
    if parts[0] == "api":
        if len(parts) == 1:
            return Discovery(legacy=True)
        group, version, rest = "", parts[1], parts[2:]
    else:
        if len(parts) <= 2:
            return Discovery(parts[1] if len(parts) == 2 else None)
        group, version, rest = parts[1], parts[2], parts[3:]
    if not rest:
        return Discovery(group, version, legacy=parts[0] == "api")
    resource = _read_resource(group, version, rest)
    if resource is None or "" in rest:
        raise NotFound("the server could not find the requested resource")
    return resource


def _read_resource(group: str, version: str, rest: list[str]) -> RequestTarget | Virtual | None:
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and not (group == "" and rest[2] in ("status", "finalize")):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource, *more = (*rest, "", "", "")[: max(3, len(rest))]
    if any(more):
        return None
    kind = BY_RESOURCE.get((group, version, plural))
    if kind is None:
        known = (group, version, plural) in VIRTUAL and not name
        return Virtual(f"{plural}.{group}" if group else plural, namespace) if known else None
    if namespace and not kind.namespaced:
        return None
    if kind.namespaced and not namespace and name:
        return None
    if kind is NAMESPACE and namespace:
        return None
    return RequestTarget(kind, namespace, name, subresource)
