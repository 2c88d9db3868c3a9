"""Bodies of requests as documents: JSON, and YAML for those who write by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.cyaml import CParser  # type: ignore[attr-defined]
from yaml.resolver import Resolver

from proreus.engine.api.server.duplicate_fields import (
    duplicates_in_json,
    duplicates_in_yaml,
    surely_single,
)
from proreus.engine.objects.errors import BadRequest, TooLarge
from proreus.engine.objects.size_limits import MOST_DEPTH, check_values, depth

JSON = "application/json"
MOST_YAML_VALUES = 50_000
"""Of a body in YAML: half of what JSON may have, since most of it is read by Python."""
_YAML_TYPES = frozenset({"application/yaml", "application/apply-patch+yaml", "application/x-yaml"})
_LONGEST_NUMBER = 64
_decoder = msgspec.json.Decoder()


class _Loader(Composer, CParser, SafeConstructor, Resolver):
    """Read by the parser in C, event by event, and put together by Python: others have their turn in between,
    where PyYAML's own CSafeLoader holds the interpreter until all is put together.

    Refuses on the way what would take long to build: a few lines of aliases unfold into gigabytes.
    """

    def __init__(self, body: bytes) -> None:
        CParser.__init__(self, body)
        Composer.__init__(self)
        SafeConstructor.__init__(self)
        Resolver.__init__(self)
        self._values = self._nested = 0

    def get_event(self) -> yaml.Event | None:
        """The next, checked."""
        event = super().get_event()
        match event:
            case yaml.ScalarEvent():
                self._values += 1
                _check_scalar(event)
            case yaml.CollectionStartEvent():
                self._values += 1
                self._nested += 1
            case yaml.CollectionEndEvent():
                self._nested -= 1
            case _:
                pass
        if self._nested > MOST_DEPTH:
            raise _too_deep()
        if self._values > MOST_YAML_VALUES:
            raise TooLarge(f"Request entity too large: YAML has at most {MOST_YAML_VALUES} values")
        return event

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """One value, with those within it."""
        if self.check_event(yaml.AliasEvent):
            raise BadRequest("the body cannot be read as YAML: aliases are not read")
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def read_document(body: bytes, content_type: str) -> Any:
    """What stands in a body; None where it is empty."""
    if not body.strip():
        return None
    check_values(body)
    try:
        document = _decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        if content_type not in _YAML_TYPES:
            raise BadRequest(f"the body cannot be read as JSON: {error}") from None
        return _read_yaml(body)
    if body.count(b"{") + body.count(b"[") > MOST_DEPTH and depth(document) > MOST_DEPTH:
        raise _too_deep()
    return document


def duplicates_in(body: bytes, content_type: str, document: Any) -> tuple[str, ...]:
    """The paths of fields that stand twice in a body that was read as `document`."""
    if not body.strip() or (content_type not in _YAML_TYPES and surely_single(body, document)):
        return ()
    try:
        return duplicates_in_json(body)
    except (ValueError, RecursionError):
        return duplicates_in_yaml(_Loader(body).get_single_node()) if content_type in _YAML_TYPES else ()


def _read_yaml(body: bytes) -> Any:
    try:
        found = _Loader(body).get_single_data()
        return _decoder.decode(msgspec.json.encode(found))
    except (yaml.YAMLError, ValueError, TypeError, ArithmeticError, RecursionError) as error:
        line = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadRequest(f"the body cannot be read as YAML: {line[:200]}") from None


def _check_scalar(event: yaml.ScalarEvent) -> None:
    """A long number, a power of 60 or the like, takes the square of its length to work out."""
    text = event.value
    if event.implicit[0] and len(text) > _LONGEST_NUMBER and text[0] in "+-.0123456789":
        raise BadRequest(
            f"the body cannot be read as YAML: a number has at most {_LONGEST_NUMBER} characters, and a text "
            "that begins like one needs quotes"
        )


def _too_deep() -> BadRequest:
    return BadRequest(f"the body is nested deeper than {MOST_DEPTH}")
