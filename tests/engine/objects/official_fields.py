"""The fields of the engine's kinds, as the official schemas state them, in the notation of `fields.txt`.

The schemas come with the package `kubernetes-validate`. Run as a module it prints the whole table:
`python -m tests.engine.objects.official_fields > src/proreus/engine/objects/schema/fields.txt`.
"""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from proreus.engine.objects.kinds import KINDS

VERSION = "v1.37.0"
_HEADER = """\
# The fields of Kubernetes objects, {version}: definition and package; name, type and marks of each field.
# Types: [T] a list, {{T}} a map of strings to T, a capital letter another definition.
# Marks: ! required; merge=KEY and strategy=S for strategic merge patches; list=S, keys=A,B and
# map=S for server-side apply. Written by tests/engine/objects/official_fields.py.
"""
_FORMATS = {
    "int-or-string": "int-or-string",
    "date-time": "time",
    "byte": "bytes",
    "int32": "int32",
    "int64": "int64",
    "double": "number",
}
_SPECIAL = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
}


def official_definitions() -> dict[str, Any]:
    """All definitions of that version, by full name."""
    folder = files("kubernetes_validate") / "kubernetes-json-schema" / f"{VERSION}-local"
    read = json.loads((folder / "_definitions.json").read_text())
    definitions: dict[str, Any] = read["$defs"]
    return definitions


def table() -> str:
    """The whole of `fields.txt`."""
    definitions = official_definitions()
    roots = [
        name
        for kind in KINDS
        for name, definition in definitions.items()
        for stated in definition.get("x-kubernetes-group-version-kind", ())
        if stated == {"group": kind.group, "kind": kind.kind, "version": kind.version}
    ]
    waiting, done = list(reversed(roots)), dict[str, str]()
    while waiting:
        name = waiting.pop()
        if name in done:
            continue
        fields = definitions[name].get("properties", {})
        needed = definitions[name].get("required", ())
        lines = [_line(field, one, field in needed) for field, one in sorted(fields.items())]
        package, _, short = name.rpartition(".")
        whole = definitions[name].get("x-kubernetes-map-type")
        heading = f"{short} {package} map={whole}" if whole else f"{short} {package}"
        done[name] = "\n".join([heading, *lines])
        waiting += [used for one in fields.values() for used in _used(one)]
    return _HEADER.format(version=VERSION) + "\n".join(done[name] for name in sorted(done)) + "\n"


def _line(field: str, one: dict[str, Any], required: bool) -> str:
    marks = [f"  {field}", _type(one)]
    if required:
        marks.append("!")
    for mark, key in (("merge", "patch-merge-key"), ("strategy", "patch-strategy"), ("list", "list-type")):
        if f"x-kubernetes-{key}" in one:
            marks.append(f"{mark}={one[f'x-kubernetes-{key}']}")
    if "x-kubernetes-list-map-keys" in one:
        marks.append("keys=" + ",".join(one["x-kubernetes-list-map-keys"]))
    if "x-kubernetes-map-type" in one:
        marks.append(f"map={one['x-kubernetes-map-type']}")
    return " ".join(marks)


def _type(one: dict[str, Any]) -> str:
    reference = _reference(one)
    if reference:
        return _SPECIAL.get(reference, reference.rpartition(".")[2])
    stated = one.get("type")
    stated = stated[0] if isinstance(stated, list) else stated
    if stated == "array":
        return f"[{_type(one['items'])}]"
    if stated == "object":
        return "{" + _type(one["additionalProperties"]) + "}" if "additionalProperties" in one else "any"
    if one.get("format") in _FORMATS:
        return _FORMATS[one["format"]]
    return {"integer": "int64", "boolean": "bool", "string": "string", "number": "number"}[str(stated)]


def _reference(one: dict[str, Any]) -> str:
    for stated in (one, *one.get("allOf", ()), *one.get("oneOf", ())):
        if "$ref" in stated:
            return str(stated["$ref"]).rpartition("/")[2]
    return ""


def _used(one: dict[str, Any]) -> list[str]:
    """The definitions that a field's type refers to."""
    reference = _reference(one)
    inner = [one[key] for key in ("items", "additionalProperties") if isinstance(one.get(key), dict)]
    named = [reference] if reference and reference not in _SPECIAL else []
    return named + [used for part in inner for used in _used(part)]


if __name__ == "__main__":
    print(table(), end="")  # noqa: T201
