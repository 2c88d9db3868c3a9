"""Tables of fields, read into schemas.

A model begins with its name and what it is; a line each follows for its fields: name (with * where it is
required), type, for lists that strategic merge patches merge the `key=` they are merged by, and what it is.
Types: string, integer, boolean, time, quantity, intstr (a number or a text), map (of strings), map:quantity,
object (anything), the last part of another model's name, or any of these in brackets, as a list.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from proreus.engine.api.schemas.cluster import CLUSTER
from proreus.engine.api.schemas.pods import PODS
from proreus.engine.api.schemas.workloads import WORKLOADS

_FIELD = re.compile(r"  (\w+)(\*?) (\[?)([\w:]+)\]? (?:key=(\w+) )?(.+)")
PLAIN = frozenset(
    {"string", "integer", "boolean", "time", "quantity", "intstr", "map", "map:quantity", "object"}
)


@dataclass(frozen=True)
class Field:
    """One field of a model."""

    type: str
    """Plain, or the full name of a model."""
    listed: bool
    required: bool
    key: str
    """What a list is merged by; "" where it is replaced as a whole."""
    about: str


@dataclass(frozen=True)
class Model:
    """An object, or a part of one."""

    about: str
    fields: Mapping[str, Field]


@cache
def models() -> Mapping[str, Model]:
    """Every model, by its full name."""
    tables = [block for table in (CLUSTER, PODS, WORKLOADS) for block in table.strip().split("\n\n")]
    heads = [table.partition(": ")[0] for table in tables]
    full = {name.rpartition(".")[2]: name for name in heads}
    return MappingProxyType({name: _model(table, full) for name, table in zip(heads, tables, strict=True)})


def _model(table: str, full: Mapping[str, str]) -> Model:
    first, *lines = table.splitlines()
    fields = {}
    for line in lines:
        found = _FIELD.fullmatch(line)
        if found is None:
            raise ValueError(f"not a field: {line!r}")
        name, required, bracket, type_, key, about = found.groups()
        known = type_ if type_ in PLAIN else full[type_]
        fields[name] = Field(known, bool(bracket), bool(required), key or "", about)
    return Model(first.partition(": ")[2], MappingProxyType(fields))


def model_of(group: str, version: str, kind: str) -> Model | None:
    """The model of a kind of object."""
    name = f"io.k8s.api.{(group or 'core').partition('.')[0]}.{version}.{kind}"
    return models().get(name)
