"""Fields that stand twice in a body: readers of JSON and YAML keep the last, and say nothing of the first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import yaml

MOST = 16
"""So many are told of."""


class _Doubled(dict[str, Any]):
    """An object of JSON in which names stand more than once."""

    names: tuple[str, ...] = ()


def duplicates_in_json(body: bytes) -> tuple[str, ...]:
    """The paths of fields that stand twice in a body that was read as JSON before."""
    doubled: list[_Doubled] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        plain = dict(pairs)
        if len(plain) == len(pairs):
            return plain
        obj = _Doubled(plain)
        obj.names = tuple(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        doubled.append(obj)
        return obj

    document = json.loads(body, object_pairs_hook=keep, parse_float=_number, parse_int=_number)
    return tuple(_in_tree(document, ""))[:MOST] if doubled else ()


def duplicates_in_yaml(root: yaml.Node | None) -> tuple[str, ...]:
    """The same of a body in YAML, by its nodes."""
    return tuple(_in_nodes(root, ""))[:MOST]


def _number(_: str) -> int:
    """Numbers are of no interest, and a long one takes long to read."""
    return 0


def _in_tree(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value, _Doubled):
            yield from (_below(path, name) for name in value.names)
        for name, child in value.items():
            yield from _in_tree(child, _below(path, name))
    elif isinstance(value, list):
        for place, child in enumerate(value):
            yield from _in_tree(child, f"{path}[{place}]")


def _in_nodes(node: yaml.Node | None, path: str) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, child in node.value:
            name = str(key.value)
            if name in seen:
                yield _below(path, name)
            seen.add(name)
            yield from _in_nodes(child, _below(path, name))
    elif isinstance(node, yaml.SequenceNode):
        for place, child in enumerate(node.value):
            yield from _in_nodes(child, f"{path}[{place}]")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
