"""What is said of definitions and their fields, for `kubectl explain`.

A definition begins with its name and what it is; a line each follows for its fields. Those of which nothing
is said here explain themselves by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from proreus.engine.api.k8s.schemas.cluster import CLUSTER
from proreus.engine.api.k8s.schemas.pods import PODS
from proreus.engine.api.k8s.schemas.workloads import WORKLOADS

_EVERYWHERE = {
    "apiVersion": "The version of the kind.",
    "kind": "The kind of the object.",
    "metadata": "Name, labels and the like.",
}


@cache
def _words() -> Mapping[str, tuple[str, Mapping[str, str]]]:
    described = {}
    for block in "\n\n".join(table.strip() for table in (CLUSTER, PODS, WORKLOADS)).split("\n\n"):
        first, *lines = block.splitlines()
        name, _, about = first.partition(": ")
        described[name] = about, dict(line.strip().split(" ", 1) for line in lines)
    return described


def about_definition(name: str) -> str:
    """What it is; "" where nothing is said."""
    return _words().get(name, ("", {}))[0]


def about_field(definition: str, name: str) -> str:
    """What a field is for; "" where nothing is said."""
    words = _words().get(definition, ("", {}))[1]
    return words.get(name) or _EVERYWHERE.get(name, "")
