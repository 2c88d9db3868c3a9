"""What somebody may do, told on request: `kubectl auth can-i`, `kubectl auth whoami`."""

from __future__ import annotations

from typing import Any

from proreus.engine.api.k8s.negotiation import check_plain
from proreus.engine.api.server.authorization import Action, allowed, rules
from proreus.engine.api.server.reply import Reply
from proreus.engine.api.server.request import ApiRequest
from proreus.engine.objects.errors import BadRequest


async def review(resource: str, asked: ApiRequest) -> Reply:
    """The review with its status filled in; it has no other form than its own."""
    check_plain(asked.accept)
    body = await asked.document()
    if not isinstance(body, dict):
        raise BadRequest("the body of the request is not an object")
    spec = body.get("spec") or {}
    if not isinstance(spec, dict):
        raise BadRequest("spec is not an object")
    match resource.partition(".")[0]:
        case "selfsubjectaccessreviews":
            status = _access(spec, asked)
        case "selfsubjectrulesreviews":
            status = _rules(asked)
        case _:
            identity = asked.identity
            status = {"userInfo": {"username": identity.name, "groups": identity.groups}}
    return Reply.of({**body, "metadata": {"creationTimestamp": None}, "status": status}, 201)


def _access(spec: dict[str, Any], asked: ApiRequest) -> dict[str, Any]:
    wanted = spec.get("resourceAttributes") or spec.get("nonResourceAttributes")
    if not isinstance(wanted, dict):
        raise BadRequest("spec.resourceAttributes: Required value")
    if not all(isinstance(value, str) for key, value in wanted.items() if not key.endswith("Selector")):
        raise BadRequest("spec.resourceAttributes: its fields are strings")
    verb = wanted.get("verb", "")
    if "path" in wanted:
        action = Action(verb, wanted["path"])
    else:
        group, subresource = wanted.get("group", ""), wanted.get("subresource", "")
        resource = wanted.get("resource", "") + (f".{group}" if group else "")
        resource += f"/{subresource}" if subresource else ""
        action = Action(verb, resource, wanted.get("namespace", ""), wanted.get("name", ""))
    may = allowed(asked.identity.role, action)
    return {"allowed": may, "reason": f"the role is {asked.identity.role.value}"}


def _rules(asked: ApiRequest) -> dict[str, Any]:
    role = asked.identity.role
    resource_rules = [
        {"verbs": verbs, "apiGroups": [group], "resources": resources}
        for verbs, group, resources in rules(role)
    ]
    paths = [{"verbs": ["get"], "nonResourceURLs": ["*"]}]
    return {"resourceRules": resource_rules, "nonResourceRules": paths, "incomplete": False}
