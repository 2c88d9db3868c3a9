"""The environment and command line of a container, with everything looked up that they refer to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from proreus.engine.objects.kinds import CONFIG_MAP, SECRET
from proreus.engine.objects.resource_amounts import read_amounts
from proreus.engine.runtimes.backend import LaunchRefused
from proreus.engine.runtimes.config_refs import UNRESOLVED, References, contents
from proreus.engine.runtimes.protocol import Pod
from proreus.model.resources import CPU, parse_quantity

ALLOCATABLE = "allocatable."
"""How the names of facts begin that say how much of a resource pods may have."""
_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_SUBSCRIPT = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


async def environment(
    pod: Pod, container: Mapping[str, Any], references: References, facts: Mapping[str, str]
) -> dict[str, str]:
    """`envFrom`, then `env`, the later before the earlier; `facts` are what only the node knows."""
    namespace = str(pod["metadata"].get("namespace") or "default")
    environment: dict[str, str] = {}
    for source in container.get("envFrom") or ():
        kind, wanted = (
            (CONFIG_MAP, source["configMapRef"])
            if source.get("configMapRef")
            else (SECRET, source.get("secretRef") or {})
        )
        keys = await contents(references, kind, namespace, wanted)
        prefix = source.get("prefix") or ""
        environment |= {prefix + key: value.decode(errors="replace") for key, value in (keys or {}).items()}
    for variable in container.get("env") or ():
        name, source = variable["name"], variable.get("valueFrom")
        if not source:
            environment[name] = expanded(str(variable.get("value") or ""), environment)
            continue
        value = await _looked_up(pod, container, source, (references, facts))
        if value is not None:
            environment[name] = value
    return environment


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` by its value where there is one; `$$` is a dollar sign.

    >>> expanded("$(A) $(B) $$(A) $C", {"A": "1"})
    '1 $(B) $(A) $C'
    """

    def value(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(value, text)


def expanded_all(texts: Iterable[object] | None, variables: Mapping[str, str]) -> tuple[str, ...]:
    """Each of them."""
    return tuple(expanded(str(text), variables) for text in texts or ())


async def _looked_up(
    pod: Pod,
    container: Mapping[str, Any],
    source: Mapping[str, Any],
    surroundings: tuple[References, Mapping[str, str]],
) -> str | None:
    references, facts = surroundings
    if "fieldRef" in source:
        return field_value(pod, str(source["fieldRef"].get("fieldPath")), facts)
    if "resourceFieldRef" in source:
        return resource_value(pod, container, source["resourceFieldRef"], facts)
    for field, kind in (("configMapKeyRef", CONFIG_MAP), ("secretKeyRef", SECRET)):
        if field in source:
            wanted = source[field]
            namespace = str(pod["metadata"].get("namespace") or "default")
            keys = await contents(references, kind, namespace, wanted)
            if keys is not None and wanted["key"] in keys:
                return keys[wanted["key"]].decode(errors="replace")
            if wanted.get("optional"):
                return None
            message = f"couldn't find key {wanted['key']} in {kind.kind} {namespace}/{wanted.get('name')}"
            raise LaunchRefused(UNRESOLVED, message)
    raise LaunchRefused(UNRESOLVED, f"a source of a value that this node does not know: {sorted(source)}")


def field_value(pod: Pod, path: str, facts: Mapping[str, str]) -> str:
    """A field of the pod, as the downward API gives it."""
    metadata, spec = pod["metadata"], pod["spec"]
    subscript = _SUBSCRIPT.match(path)
    if subscript:
        return str((metadata.get(subscript[1]) or {}).get(subscript[2], ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.partition(".")[2]) or "")
        case "metadata.labels" | "metadata.annotations":
            pairs = sorted((metadata.get(path.partition(".")[2]) or {}).items())
            return "\n".join(f'{key}="{value}"' for key, value in pairs)
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.partition(".")[2]) or "")
        case "status.podIP" | "status.hostIP" | "status.podIPs" | "status.hostIPs":
            return facts.get(path.removesuffix("s"), "")
        case _:
            raise LaunchRefused(UNRESOLVED, f"unsupported fieldPath: {path}")


def resource_value(
    pod: Pod, container: Mapping[str, Any], wanted: Mapping[str, Any], facts: Mapping[str, str]
) -> str:
    """A request or limit in units of the divisor; who has no limit may have all that pods may have."""
    named = wanted.get("containerName")
    if named and named != container["name"]:
        spec = pod["spec"]
        containers = (*spec["containers"], *(spec.get("initContainers") or ()))
        container = next((other for other in containers if other["name"] == named), container)
    what, _, resource = str(wanted["resource"]).partition(".")
    stated = read_amounts((container.get("resources") or {}).get(what))
    scale = 1000 if resource == CPU else 1
    usual = facts.get(f"{ALLOCATABLE}{resource}") if what == "limits" else None
    amount = stated.get(resource, parse_quantity(usual, scale=scale) if usual else 0)
    divisor = parse_quantity(wanted.get("divisor") or "1", scale=scale) or scale
    return str(-(-amount // divisor))
