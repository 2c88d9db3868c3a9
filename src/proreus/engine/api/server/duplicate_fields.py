"""Fields that stand twice in a body: readers of JSON and YAML keep the last, and say nothing of the first."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import yaml

MOST = 16
"""So many are told of."""
_NAME = b'":'
_GAP = re.compile(rb'"[ \t\r\n]+:')
_encode = msgspec.json.Encoder().encode


class _Doubled(dict[str, Any]):
    """An object of JSON in which names stand more than once."""

    names: tuple[str, ...] = ()


def surely_single(body: bytes, document: Any) -> bool:
    """Whether no field stands twice in a body of JSON that was read as `document`: both have as many names.

    Only of bodies without escapes, and without a gap between a name and its colon: there every name, and
    every text that begins with a colon, is a quote and a colon, in the body as in the document once written.
    """
    if b"\\" in body or _GAP.search(body) is not None:
        return False
    try:
        return body.count(_NAME) == _encode(document).count(_NAME)
    except (msgspec.MsgspecError, OverflowError):  # a number that is longer than what is written
        return False


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
